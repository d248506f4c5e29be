//! The dependencies between modules of a crate, found by paths that begin with `crate::`. In a crate without one
//! central type, such as core's engine, this finds cycles that the call graph would miss.

use crate::graph::Graph;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Maps each top-level module of a crate, including its submodules, to the modules that it uses. The root is left out,
/// because it names all modules.
pub fn imports(folder: &Path) -> Result<Graph, String> {
    let mut texts: Vec<(String, String)> = Vec::new();
    collect(folder, None, &mut texts)?;
    let rooms: BTreeSet<String> = texts.iter().map(|(room, _)| room.clone()).collect();
    let mut graph = Graph::new();
    for (room, text) in &texts {
        let named = named(text).filter(|name| rooms.contains(*name) && name != room);
        graph.entry(room.clone()).or_default().extend(named.map(str::to_owned));
    }
    Ok(graph)
}

fn collect(folder: &Path, room: Option<&str>, into: &mut Vec<(String, String)>) -> Result<(), String> {
    let error = |error| format!("cannot read {}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(error)? {
        let path = entry.map_err(error)?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if path.is_dir() {
            collect(&path, Some(room.unwrap_or(&name)), into)?;
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && (room.is_some() || name != "lib")
        {
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            into.push((room.map_or(name, str::to_owned), text));
        }
    }
    Ok(())
}

/// The first segments of all paths that begin with `crate::`, including those in braces.
fn named(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("crate::").flat_map(|(at, found)| {
        let rest = &text[at + found.len()..];
        let mut names = Vec::new();
        if let Some(group) = rest.strip_prefix('{') {
            let (mut depth, mut from) = (0, 0);
            for (at, letter) in group.char_indices() {
                match letter {
                    '{' => depth += 1,
                    '}' if depth > 0 => depth -= 1,
                    ',' | '}' if depth == 0 => {
                        names.push(word(&group[from..at]));
                        from = at + 1;
                        if letter == '}' {
                            break;
                        }
                    }
                    _ => {}
                }
            }
        } else {
            names.push(word(rest));
        }
        names
    })
}

/// The identifier with which a path begins.
fn word(path: &str) -> &str {
    let path = path.trim_start();
    path.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_alone_and_in_braces() {
        let text = "use crate::ffi::{Args, owned};\nuse crate::{call, pairs::{a, b},\n    state};\nf(crate::scope::x);";
        assert_eq!(named(text).collect::<Vec<_>>(), ["ffi", "call", "pairs", "state", "scope"]);
    }
}
