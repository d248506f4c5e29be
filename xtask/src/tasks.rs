//! The ten tasks of a new user, done with what the guide shows and the package as released. The programs in `xtask/tasks`
//! name blocks of the guide, which are put in here; [`crate::install`] builds them in an empty folder and runs them.

use crate::packages::read;
use crate::run::{Error, Result};
use crate::setup::Shop;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What each program must have done in the end.
const TASKS: [&str; 10] = [
    "wrap the client",
    "wrap a function",
    "wrap an SDK",
    "limit",
    "set a deadline",
    "stream",
    "cancel",
    "see why",
    "measure",
    "test with time under control",
];
/// The beginnings of a line in whose place a block of the guide goes, indented as the line is: `//@ page: words that only
/// this block has`, or `#@ page: words`.
const MARKS: [&str; 2] = ["//@ ", "#@ "];
/// The address in the programs and in the guide, which stands for that of the server.
const ADDRESSES: [&str; 2] = ["https://api.example", "https://shop.example"];

/// An answer that `openai` and `anthropic` can read.
const COMPLETION: &str = r#"{"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0,
"finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}], "type": "message", "role": "assistant",
"content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}"#;

/// A language with a program.
#[derive(Clone, Copy, Debug)]
pub struct Language {
    /// The program's file.
    file: &'static str,
    /// How its blocks are marked in the guide.
    fence: &'static str,
}

pub const JAVASCRIPT: Language = Language { file: "xtask/tasks/javascript.ts", fence: "ts" };
pub const KOTLIN: Language = Language { file: "xtask/tasks/kotlin.kt", fence: "kotlin" };
pub const PYTHON: Language = Language { file: "xtask/tasks/python.py", fence: "python" };
pub const RUST: Language = Language { file: "xtask/tasks/rust.rs", fence: "rust" };
pub const SWIFT: Language = Language { file: "xtask/tasks/swift.swift", fence: "swift" };

/// The program of a language with the guide's blocks, for a server of its own that runs until this process ends.
pub fn program(shop: &Shop, language: Language) -> Result<String> {
    let mut text = complete(shop, language)?;
    let server = serve()?;
    for address in ADDRESSES {
        text = text.replace(address, &server);
    }
    Ok(text)
}

/// Checks that a program has done all tasks.
pub fn done(printed: &str) -> Result {
    // Maven leaves the codes of its colours before the first line.
    let is_done =
        |task: &str| printed.lines().any(|line| line.trim_end().ends_with(&format!("done: {task}")));
    match TASKS.into_iter().find(|task| !is_done(task)) {
        None => Ok(()),
        Some(task) => Err(Error(format!("the program must print `done: {task}`; it printed:\n{printed}"))),
    }
}

/// A program with the blocks that it names. The imports of TypeScript's blocks go to the top, each once, because a function
/// cannot have any.
fn complete(shop: &Shop, language: Language) -> Result<String> {
    let (mut imports, mut lines) = (Vec::new(), Vec::new());
    for line in read(&shop.root, language.file)?.lines() {
        let Some(named) = named(line) else {
            lines.push(line.to_owned());
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        for code in block(shop, language, named)?.lines() {
            if language.fence == "ts" && code.starts_with("import ") {
                imports.push(code.to_owned());
            } else {
                lines.push(format!("{:indent$}{code}", ""));
            }
        }
    }
    imports.sort();
    imports.dedup();
    imports.extend(lines);
    Ok(imports.join("\n") + "\n")
}

/// The page and the words of a line that names a block.
fn named(line: &str) -> Option<&str> {
    MARKS.iter().find_map(|mark| line.trim_start().strip_prefix(mark))
}

/// The only block of a page that has these words.
fn block(shop: &Shop, language: Language, named: &str) -> Result<String> {
    let (page, words) = named
        .split_once(": ")
        .ok_or_else(|| Error(format!("{}: `{named}` must be `page: words`", language.file)))?;
    let blocks = blocks(&read(&shop.root, page)?, language.fence);
    let mut found = blocks.into_iter().filter(|block| block.contains(words));
    match (found.next(), found.next()) {
        (Some(block), None) => Ok(block),
        (first, _) => {
            let count = if first.is_some() { "several blocks" } else { "no block" };
            Err(Error(format!("{page} has {count} with `{words}` ({})", language.file)))
        }
    }
}

/// The blocks of a language in a page, as readers see them: lines that rustdoc hides are left out, and blocks in a comment.
fn blocks(page: &str, fence: &str) -> Vec<String> {
    let (mut blocks, mut is_shown) = (Vec::new(), true);
    let parts: Vec<_> = page.split("\n```").collect();
    for [text, part] in parts.as_chunks().0 {
        let (head, code) = part.split_once('\n').unwrap_or((part, ""));
        if let Some(last) = text.rfind("<!--").max(text.rfind("-->")) {
            is_shown = !text[last..].starts_with("<!--");
        }
        if is_shown && head.split(',').next() == Some(fence) {
            let shown = code.lines().filter(|line| fence != "rust" || !is_hidden(line));
            blocks.push(shown.collect::<Vec<_>>().join("\n"));
        }
    }
    blocks
}

fn is_hidden(line: &str) -> bool {
    let line = line.trim_start();
    line == "#" || line.starts_with("# ")
}

/// A server on loopback, until this process ends. The first request to a path with a method gets a 503 and later ones an
/// answer. `/down` gets a 503 every time, and `/slow` never an answer. `/orders` and requests that accept JSON get the answer
/// of a language model. What accepts or asks for an event stream, or is called a stream, gets events. Returns its address.
fn serve() -> Result<String> {
    let broken = |error: std::io::Error| Error(format!("no server on loopback: {error}"));
    let listener = TcpListener::bind("127.0.0.1:0").map_err(broken)?;
    let address = listener.local_addr().map_err(broken)?;
    thread::spawn(move || {
        let seen = Arc::new(Mutex::new(Vec::new()));
        for connection in listener.incoming().flatten() {
            let seen = Arc::clone(&seen);
            thread::spawn(move || drop(answer(connection, &seen)));
        }
    });
    Ok(format!("http://{address}"))
}

/// Reads one request and answers it.
fn answer(connection: TcpStream, seen: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection);
    let (mut first, mut line) = (String::new(), String::new());
    reader.read_line(&mut first)?;
    let (mut length, mut streams, mut is_json) = (0, first.contains("/stream"), first.contains(" /orders "));
    while reader.read_line(&mut line)? > 0 && line.trim_end() != "" {
        let field = line.to_lowercase();
        if let Some(value) = field.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        let accepts = |kind: &str| field.starts_with("accept:") && field.contains(kind);
        streams |= accepts("text/event-stream");
        is_json |= accepts("application/json");
        line.clear();
    }
    let mut body = Vec::new();
    reader.by_ref().take(length).read_to_end(&mut body)?;
    streams |= String::from_utf8_lossy(&body).replace(' ', "").contains("\"stream\":true");
    let mut connection = reader.into_inner();
    if first.contains(" /slow ") {
        thread::sleep(Duration::from_secs(30));
        return Ok(());
    }
    let is_new = first.contains(" /down ")
        || seen.lock().is_ok_and(|mut seen| {
            let is_new = !seen.contains(&first);
            seen.push(first);
            is_new
        });
    let head = "Connection: close\r\nContent-";
    if is_new {
        return write!(connection, "HTTP/1.1 503 Service Unavailable\r\n{head}Length: 4\r\n\r\nbusy");
    }
    if !streams {
        let (kind, answer) =
            if is_json { ("application/json", COMPLETION) } else { ("text/plain", "an order") };
        let length = answer.len();
        return write!(
            connection,
            "HTTP/1.1 200 OK\r\n{head}Type: {kind}\r\nContent-Length: {length}\r\n\r\n{answer}"
        );
    }
    write!(connection, "HTTP/1.1 200 OK\r\n{head}Type: text/event-stream\r\n\r\n")?;
    for words in ["high tide ", "is at six ", "in the evening"] {
        let choices = format!("[{{\"index\": 0, \"delta\": {{\"content\": \"{words}\"}}}}]");
        write!(connection, "data: {{\"choices\": {choices}}}\n\n")?;
        connection.flush()?;
        thread::sleep(Duration::from_millis(50));
    }
    write!(connection, "data: [DONE]\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_does_all_tasks_with_blocks_of_the_guide() {
        let shop = Shop::open(false).expect("we are in the repository");
        for language in [JAVASCRIPT, KOTLIN, PYTHON, RUST, SWIFT] {
            let text = read(&shop.root, language.file).expect("it is there");
            let count = text.lines().filter_map(named).count();
            assert!(count >= TASKS.len(), "{}: {count} blocks", language.file);
            let program = complete(&shop, language).expect("each block is there, once");
            assert!(program.lines().all(|line| named(line).is_none()), "{program}");
            for task in TASKS {
                assert!(
                    program.contains(&format!("\"{task}\"")) || program.contains(&format!("done: {task}"))
                );
            }
        }
    }

    #[test]
    fn blocks_are_indented_as_their_marks_and_imports_come_first() {
        let shop = Shop::open(false).expect("we are in the repository");
        let python = complete(&shop, PYTHON).expect("each block is there");
        assert!(python.contains("\n    with tidegate.deadline(2.0):\n        response = "), "{python}");
        let typescript = complete(&shop, JAVASCRIPT).expect("each block is there");
        assert_eq!(typescript.matches("import { policy } from \"tidegate\";\n").count(), 1, "{typescript}");
        let (_, rest) = typescript.split_once("\n\n").expect("a blank line");
        assert!(typescript.starts_with("import ") && !rest.contains("\n  import "), "{typescript}");
    }

    #[test]
    fn a_task_that_was_not_done_is_named() {
        let all = TASKS.map(|task| format!("\u{1b}[0mdone: {task}\n")).concat();
        assert_eq!(done(&all), Ok(()));
        let lacks = all.replace("done: cancel\n", "cancel: it hangs\n");
        assert!(
            done(&lacks).is_err_and(|error| error.0.starts_with("the program must print `done: cancel`"))
        );
    }

    #[test]
    fn blocks_are_those_of_the_language_without_hidden_lines() {
        let page =
            "a\n\n```rust\n# hidden\nlet a = 1;\n```\n\n```text\nb\n```\n\n```rust,no_run\n#[test]\n```\n";
        assert_eq!(blocks(page, "rust"), ["let a = 1;", "#[test]"]);
        assert_eq!(blocks(page, "swift"), [""; 0]);
        let page = "a <!-- note -->\n```python\nshown()\n```\n<!-- tests\n```python\nb\n```\n```python\nc\n```\n-->\n";
        assert_eq!(blocks(page, "python"), ["shown()"]);
    }

    #[test]
    fn the_server_fails_once_per_path_and_streams() {
        let server = serve().expect("a server");
        let ask = |path: &str| {
            let mut connection =
                TcpStream::connect(server.trim_start_matches("http://")).expect("it listens");
            write!(connection, "POST {path} HTTP/1.1\r\nContent-Length: 2\r\n\r\n{{}}").expect("it reads");
            let mut text = String::new();
            connection.read_to_string(&mut text).expect("it answers");
            text
        };
        assert!(ask("/a").starts_with("HTTP/1.1 503 ") && ask("/stream").starts_with("HTTP/1.1 503 "));
        assert!(ask("/orders").starts_with("HTTP/1.1 503 ") && ask("/orders").ends_with(COMPLETION));
        assert!(ask("/a").ends_with("\r\n\r\nan order"));
        assert_eq!(ask("/stream").matches("data: {").count(), 3);
    }
}
