//! The part of the Redis protocol (RESP2) that tests need, over one blocking socket.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long a test waits for a reply that must come.
const PATIENCE: Duration = Duration::from_secs(10);

/// A reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Word {
    /// A bulk or simple string.
    Text(Vec<u8>),
    /// An error's text.
    Error(String),
    /// An integer.
    Number(i64),
    /// No value.
    Nil,
    /// A list.
    List(Vec<Word>),
}

impl Word {
    /// The text of a string or an integer; anything else fails the test.
    pub fn text(&self) -> String {
        match self {
            Self::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Number(number) => number.to_string(),
            other => panic!("a text, not {other:?}"),
        }
    }

    /// The reply in the form in which a host gives it to the engine.
    pub fn into_reply(self) -> Result<Vec<u8>, String> {
        match self {
            Self::Text(bytes) => Ok(bytes),
            Self::Error(text) => Err(text),
            Self::Number(number) => Ok(number.to_string().into_bytes()),
            Self::Nil => Ok(Vec::new()),
            Self::List(_) => Err("no answer of a script of ours".into()),
        }
    }
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<Stream>,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl io::Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(bytes),
            Self::Unix(stream) => stream.read(bytes),
        }
    }
}

impl io::Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
        }
    }
}

impl Connection {
    /// Connects, within ten seconds.
    pub fn open(at: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&at, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::new(Stream::Tcp(stream)) })
    }

    /// Connects by a socket file, so no network is involved, not even that of another namespace.
    pub fn open_file(at: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(at)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::new(Stream::Unix(stream)) })
    }

    /// Sends one command and reads its reply.
    pub fn run(&mut self, words: &[Vec<u8>]) -> io::Result<Word> {
        Ok(self.pipeline(&[words.to_vec()])?.remove(0))
    }

    /// Sends commands in one write, and reads their replies.
    pub fn pipeline(&mut self, commands: &[Vec<Vec<u8>>]) -> io::Result<Vec<Word>> {
        let mut bytes = Vec::new();
        for words in commands {
            write!(bytes, "*{}\r\n", words.len())?;
            for word in words {
                write!(bytes, "${}\r\n", word.len())?;
                bytes.extend_from_slice(word);
                bytes.extend_from_slice(b"\r\n");
            }
        }
        self.stream.get_mut().write_all(&bytes)?;
        commands.iter().map(|_| self.read()).collect()
    }

    /// Sends a command given as text; an error reply fails the test.
    pub fn ok(&mut self, command: &str) -> Word {
        match self.run(&crate::words(command)) {
            Ok(Word::Error(text)) => panic!("{command}: {text}"),
            Ok(word) => word,
            Err(error) => panic!("{command}: {error}"),
        }
    }

    fn read(&mut self) -> io::Result<Word> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, format!("no answer: {line:?}"));
        let rest = line.get(1..).ok_or_else(wrong)?.trim_end();
        let count = || rest.parse::<i64>().map_err(|_| wrong());
        Ok(match line.as_bytes()[0] {
            b'+' => Word::Text(rest.as_bytes().to_vec()),
            b'-' => Word::Error(rest.to_string()),
            b':' => Word::Number(count()?),
            b'$' => match usize::try_from(count()?) {
                Ok(length) => {
                    let mut bytes = vec![0; length + 2];
                    self.stream.read_exact(&mut bytes)?;
                    bytes.truncate(length);
                    Word::Text(bytes)
                }
                Err(_) => Word::Nil,
            },
            b'*' => match usize::try_from(count()?) {
                Ok(length) => Word::List((0..length).map(|_| self.read()).collect::<io::Result<_>>()?),
                Err(_) => Word::Nil,
            },
            _ => return Err(wrong()),
        })
    }
}
