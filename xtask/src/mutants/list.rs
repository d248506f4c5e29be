//! The list of mutants (`tests/mutants/list.txt`), and core's sources with all mutants compiled in, each behind a
//! switch, so that one build tests them all.

use crate::run::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;

/// The environment variable that selects a mutant by its number, from 1 on.
pub const SWITCH: &str = "TIDEGATE_MUTANT";

/// Code of the switches, which is added to the scratch copy of core.
pub const SWITCHES: &str = r#"
pub(crate) mod mutants {
    static ON: std::sync::OnceLock<Option<u32>> = std::sync::OnceLock::new();
    #[inline]
    pub(crate) fn on(number: u32) -> bool {
        *ON.get_or_init(|| std::env::var("TIDEGATE_MUTANT").ok().and_then(|it| it.parse().ok())) == Some(number)
    }
}
"#;

/// One mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// Its name: the area, and a number.
    pub name: String,
    /// The file that it changes, from the repository's root.
    pub file: String,
    /// A sentence that says what the mutant breaks.
    pub breaks: String,
    /// The code that it replaces, with `⟦ ⟧` around the replaced part if neighbouring code is needed to find it.
    find: String,
    /// The replacement.
    replace: String,
    /// For an equivalent mutant, why it behaves as core does.
    pub same: Option<String>,
}

/// Reads the list.
pub fn read(text: &str) -> Result<Vec<Mutant>> {
    let mut mutants: Vec<Mutant> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = |what: &str| Error(format!("tests/mutants/list.txt, line {}: {what}", number + 1));
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if !line.starts_with([' ', '-', '+', '=']) {
            let (name, file) = line.split_once(' ').ok_or_else(|| wrong("a name and a file"))?;
            if mutants.iter().any(|it| it.name == name) {
                return Err(wrong("another mutant has this name"));
            }
            let [name, file] = [name, file].map(str::to_owned);
            let [breaks, find, replace] = [(); 3].map(|()| String::new());
            mutants.push(Mutant { name, file, breaks, find, replace, same: None });
            continue;
        }
        let mutant = mutants.last_mut().ok_or_else(|| wrong("a mutant begins with its name and its file"))?;
        let field = match line.as_bytes()[0] {
            b'-' => &mut mutant.find,
            b'+' => &mut mutant.replace,
            b'=' => mutant.same.get_or_insert_default(),
            _ => &mut mutant.breaks,
        };
        if !field.is_empty() {
            field.push(' ');
        }
        field.push_str(line[1..].trim());
    }
    match mutants.iter().find(|it| it.breaks.is_empty() || it.find.is_empty()) {
        Some(it) => {
            Err(Error(format!("tests/mutants/list.txt: {} says not what it breaks, or where", it.name)))
        }
        None => Ok(mutants),
    }
}

/// Returns core's files with the switches in them. `text_of` reads a file.
///
/// # Errors
/// Mutants whose code is not found exactly once, or overlaps another mutant's.
pub fn switched(
    mutants: &[Mutant],
    text_of: impl Fn(&str) -> Result<String>,
) -> Result<BTreeMap<String, String>> {
    let mut places: BTreeMap<&str, Vec<(Range<usize>, usize)>> = BTreeMap::new();
    let mut texts = BTreeMap::new();
    let mut wrong = Vec::new();
    for (at, mutant) in mutants.iter().enumerate() {
        if !texts.contains_key(&mutant.file) {
            texts.insert(mutant.file.clone(), text_of(&mutant.file)?);
        }
        match place(&texts[&mutant.file], &mutant.find) {
            Ok(place) => places.entry(&mutant.file).or_default().push((place, at)),
            Err(found) => wrong.push(format!(
                "{}: its code is found {found} times in {}; it must be found once: correct tests/mutants/list.txt",
                mutant.name, mutant.file
            )),
        }
    }
    for (file, mut places) in places {
        let text = texts.get_mut(file).ok_or_else(|| Error(format!("{file} was not read")))?;
        // From the end of the file, so that earlier offsets stay valid; within one place, the first mutant last.
        places.sort_by_key(|(place, at)| (usize::MAX - place.start, usize::MAX - place.end, *at));
        let mut before = text.len();
        for chunk in places.chunk_by(|one, other| one.0 == other.0) {
            let place = chunk[0].0.clone();
            if place.end > before {
                wrong.push(format!("{}: its code lies across another's", mutants[chunk[0].1].name));
                continue;
            }
            before = place.start;
            let code = chunk.iter().fold(text[place.clone()].to_owned(), |code, (_, at)| {
                switch(at + 1, &mutants[*at].replace, &code)
            });
            text.replace_range(place, &code);
        }
    }
    if wrong.is_empty() { Ok(texts) } else { Err(Error(wrong.join("\n   "))) }
}

/// Code that chooses between two alternatives: both are statements, or both are expressions.
fn switch(number: usize, replace: &str, code: &str) -> String {
    let choice = format!("if crate::mutants::on({number}) {{ {replace} }} else {{ {code} }}");
    if code.ends_with([';', '}']) { choice } else { format!("({choice})") }
}

/// The range of a mutant's code, ignoring white space; otherwise how often it was found.
fn place(text: &str, find: &str) -> std::result::Result<Range<usize>, usize> {
    let solid = |text: &str| -> Vec<(usize, char)> {
        text.char_indices().filter(|(_, char)| !char.is_whitespace()).collect()
    };
    let marked: Vec<char> = solid(find).into_iter().map(|(_, char)| char).collect();
    let code: Vec<char> = marked.iter().copied().filter(|char| !"⟦⟧".contains(*char)).collect();
    let begin = marked.iter().position(|char| *char == '⟦').unwrap_or(0);
    let end = marked.iter().position(|char| *char == '⟧').map_or(code.len(), |end| end - 1);
    let text = solid(text);
    let found: Vec<usize> = text
        .windows(code.len())
        .enumerate()
        .filter(|(_, window)| window.iter().map(|(_, char)| char).eq(&code))
        .map(|(at, _)| at)
        .collect();
    match found[..] {
        [at] if begin < end => {
            let (last, char) = text[at + end - 1];
            Ok(text[at + begin].0..last + char.len_utf8())
        }
        _ => Err(found.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::Shop;
    use std::fs;

    const LIST: &str = "\
# A comment.
one-1 a.rs
  Adds.
- let sum = ⟦a + b⟧;
+ a - b

one-2 a.rs
  Forgets.
- forget(sum);
+
= It is never called.
";

    #[test]
    fn a_switch_stands_where_the_code_was() {
        let mutants = read(LIST).expect("it can be read");
        assert_eq!(mutants[1].same.as_deref(), Some("It is never called."));
        let texts = switched(&mutants, |_| {
            Ok("fn f() {\n    let sum = a\n        + b;\n    forget(sum);\n}\n".into())
        });
        let text = &texts.expect("both are found")["a.rs"];
        assert!(
            text.contains("let sum = (if crate::mutants::on(1) { a - b } else { a\n        + b });"),
            "{text}"
        );
        assert!(text.contains("if crate::mutants::on(2) {  } else { forget(sum); }"), "{text}");
    }

    #[test]
    fn a_mutant_whose_code_is_gone_or_there_twice_is_named() {
        let mutants = read(LIST).expect("it can be read");
        for (text, times) in [("", "0"), ("let sum = a + b; let sum = a + b; forget(sum);", "2")] {
            let Err(Error(why)) = switched(&mutants, |_| Ok(text.into())) else { panic!("{text}") };
            assert!(why.starts_with(&format!("one-1: its code is found {times} times in a.rs")), "{why}");
        }
        assert!(read("  no name\n").is_err() && read("a b.rs\n").is_err());
    }

    #[test]
    fn the_list_fits_the_sources() {
        let root = Shop::open(false).expect("we are in the repository").root;
        let text =
            |file: &str| fs::read_to_string(root.join(file)).map_err(Error::at("read", &root.join(file)));
        let mutants =
            text("tests/mutants/list.txt").and_then(|list| read(&list)).expect("the list can be read");
        assert!(mutants.iter().filter(|it| it.same.is_none()).count() >= 60);
        if let Err(Error(why)) = switched(&mutants, text) {
            panic!("{why}");
        }
    }
}
