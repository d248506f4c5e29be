//! The call graph, and its cycles.

use crate::source::{Callee, Function, PARTS};
use std::collections::{BTreeMap, BTreeSet};

/// Maps each node to the nodes that it calls.
pub type Graph = BTreeMap<String, BTreeSet<String>>;

/// The calls between functions of the crate, each identified by its file and its name. A method is resolved by its type
/// if the text names the type; otherwise only if it belongs to the engine or one of its parts and no other type has a
/// method of that name (`x.len()` may be any type's). If several functions have the name, the one in the same file is
/// taken.
pub fn calls(functions: &[&Function]) -> Graph {
    let mut by_name: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut methods: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for function in functions {
        by_name.entry(&function.name).or_default().insert(&function.file);
        if let (Some(_), Some((_, short))) = (&function.of, function.name.rsplit_once("::")) {
            methods.entry(short).or_default().insert(&function.name);
        }
    }
    let mut graph = Graph::new();
    for function in functions {
        let to = graph.entry(node(&function.file, &function.name)).or_default();
        for callee in &function.calls {
            let own = |name: &String| function.of.as_ref().map(|of| format!("{of}::{name}"));
            let name = match callee {
                Callee::Own(name) => own(name),
                Callee::Of(of, name) if of == "Self" => own(name),
                Callee::Of(of, name) => Some(format!("{of}::{name}")),
                Callee::Free(name) => Some(name.clone()),
                Callee::Method(name) => methods
                    .get(name.as_str())
                    .and_then(only)
                    .filter(|name| name.split_once("::").is_some_and(|(of, _)| PARTS.contains(&of)))
                    .map(str::to_owned),
            };
            let Some(name) = name else { continue };
            let Some(files) = by_name.get(name.as_str()) else { continue };
            let file = if files.contains(function.file.as_str()) {
                Some(function.file.as_str())
            } else {
                only(files)
            };
            if let Some(file) = file {
                to.insert(node(file, &name));
            }
        }
    }
    graph
}

fn node(file: &str, name: &str) -> String {
    format!("{file} {name}")
}

fn only<'a>(files: &BTreeSet<&'a str>) -> Option<&'a str> {
    files.first().copied().filter(|_| files.len() == 1)
}

/// The calls between files: a file calls another if one of its functions calls one of the other's.
pub fn between_files(calls: &Graph) -> Graph {
    let file = |node: &str| node.split(' ').next().unwrap_or(node).to_owned();
    let mut graph = Graph::new();
    for (from, to) in calls {
        let of = graph.entry(file(from)).or_default();
        of.extend(to.iter().map(|node| file(node)).filter(|to| *to != file(from)));
    }
    graph
}

/// Groups of more than one node that reach each other, largest first (Tarjan 1972).
pub fn circles(graph: &Graph) -> Vec<Vec<String>> {
    struct Walk<'a> {
        graph: &'a Graph,
        index: BTreeMap<&'a str, usize>,
        low: BTreeMap<&'a str, usize>,
        stack: Vec<&'a str>,
        found: Vec<Vec<String>>,
    }
    fn visit<'a>(walk: &mut Walk<'a>, node: &'a str) {
        let number = walk.index.len();
        walk.index.insert(node, number);
        walk.low.insert(node, number);
        walk.stack.push(node);
        for next in walk.graph.get(node).into_iter().flatten() {
            if !walk.index.contains_key(next.as_str()) {
                visit(walk, next);
                let low = walk.low[node].min(walk.low[next.as_str()]);
                walk.low.insert(node, low);
            } else if walk.stack.contains(&next.as_str()) {
                let low = walk.low[node].min(walk.index[next.as_str()]);
                walk.low.insert(node, low);
            }
        }
        if walk.low[node] == number {
            let from = walk.stack.iter().position(|&other| other == node).unwrap_or(0);
            let group: Vec<String> = walk.stack.drain(from..).map(str::to_owned).collect();
            if group.len() > 1 {
                walk.found.push(group);
            }
        }
    }
    let mut walk =
        Walk { graph, index: BTreeMap::new(), low: BTreeMap::new(), stack: Vec::new(), found: Vec::new() };
    for node in graph.keys() {
        if !walk.index.contains_key(node.as_str()) {
            visit(&mut walk, node);
        }
    }
    walk.found.sort_by_key(|group| std::cmp::Reverse(group.len()));
    walk.found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        graph
    }

    #[test]
    fn circles_are_found_largest_first() {
        let graph =
            graph(&[("a", "b"), ("b", "a"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "c"), ("e", "f")]);
        let circles = circles(&graph);
        let sorted: Vec<Vec<&str>> = circles
            .iter()
            .map(|group| {
                let mut group: Vec<&str> = group.iter().map(String::as_str).collect();
                group.sort_unstable();
                group
            })
            .collect();
        assert_eq!(sorted, [vec!["c", "d", "e"], vec!["a", "b"]]);
    }

    #[test]
    fn calls_within_a_file_do_not_count_between_files() {
        let calls = graph(&[("a.rs f", "a.rs g"), ("a.rs g", "b.rs h"), ("b.rs h", "a.rs f")]);
        let files = between_files(&calls);
        assert_eq!(files, graph(&[("a.rs", "b.rs"), ("b.rs", "a.rs")]));
        assert_eq!(circles(&calls)[0].len(), 3);
    }
}
