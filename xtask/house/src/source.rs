//! Reads facts from the sources: each function, the functions that it calls, and the marks.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// The engine and the parts that it lends to its stages, the largest first.
pub const PARTS: [&str; 4] = ["Engine", "FleetDesk", "Desk", "Sender"];

/// A source file.
pub struct Source {
    /// The file's path below `core/src`.
    pub path: String,
    pub lines: usize,
    pub functions: Vec<Function>,
    /// Each mention of the small engine: `file:line`.
    pub marks: Vec<String>,
    /// Those marks that are inside a function.
    pub marks_in_bodies: Vec<String>,
    /// How often the file writes the state of a call: `.go(State::…)`, `.state = State::…`, or the field `standing`.
    pub state_writes: usize,
}

/// A function or a method.
pub struct Function {
    pub file: String,
    /// `Type::name`, or `name`.
    pub name: String,
    /// The type to which the method belongs.
    pub of: Option<String>,
    pub public: bool,
    /// The largest of [`PARTS`] that it takes, as `self` or as an argument.
    pub takes: Option<&'static str>,
    /// Number of arguments, without `self` and `now`.
    pub arguments: usize,
    pub calls: BTreeSet<Callee>,
}

/// A called function, as far as the text identifies it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Callee {
    /// `self.name()`
    Own(String),
    /// `something.name()`
    Method(String),
    /// `Type::name()`
    Of(String, String),
    /// `name()`
    Free(String),
}

/// Reads all sources below a folder in the order of their paths, without tests.
pub fn read(folder: &Path) -> Result<Vec<Source>, String> {
    let mut paths = Vec::new();
    collect(folder, &mut paths)?;
    paths.sort();
    paths.iter().map(|path| source(folder, path)).collect()
}

/// Collects the Rust files below a folder, without those that are tests alone.
pub fn collect(folder: &Path, into: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries =
        fs::read_dir(folder).map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.is_dir() {
            collect(&path, into)?;
        } else if path.extension().is_some_and(|ext| ext == "rs")
            && path.file_name().is_some_and(|name| name != "tests.rs")
        {
            into.push(path);
        }
    }
    Ok(())
}

fn source(folder: &Path, path: &Path) -> Result<Source, String> {
    let text =
        fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let path = path.strip_prefix(folder).unwrap_or(path).to_string_lossy().into_owned();
    parse(path, &text)
}

fn parse(path: String, text: &str) -> Result<Source, String> {
    let tree = syn::parse_file(text).map_err(|error| format!("cannot parse {path}: {error}"))?;
    let mut reader = Reader {
        file: path.clone(),
        of: Vec::new(),
        public: Vec::new(),
        functions: Vec::new(),
        bodies: Vec::new(),
        state_writes: 0,
    };
    reader.visit_file(&tree);
    let code = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    let marks: Vec<usize> = code.filter(|(_, line)| is_mark(line)).map(|(number, _)| number + 1).collect();
    let place = |line: &usize| format!("{path}:{line}");
    let inside =
        marks.iter().filter(|line| reader.bodies.iter().any(|(from, to)| *line > from && *line < to));
    Ok(Source {
        lines: text.lines().count(),
        marks_in_bodies: inside.map(place).collect(),
        marks: marks.iter().map(place).collect(),
        functions: reader.functions,
        state_writes: reader.state_writes,
        path,
    })
}

/// Whether the line contains `tidegate_small`, or the constant `FULL` as a word.
fn is_mark(line: &str) -> bool {
    let word = |part: &str| part == "FULL" || part == "tidegate_small";
    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(word)
}

struct Reader {
    file: String,
    of: Vec<String>,
    public: Vec<bool>,
    functions: Vec<Function>,
    /// First and last line of each body.
    bodies: Vec<(usize, usize)>,
    state_writes: usize,
}

impl Reader {
    fn function(&mut self, signature: &syn::Signature, public: bool, body: &syn::Block) {
        let of = self.of.last().cloned();
        let mut function = Function {
            file: self.file.clone(),
            name: of
                .as_ref()
                .map_or_else(|| signature.ident.to_string(), |of| format!("{of}::{}", signature.ident)),
            public,
            takes: None,
            arguments: 0,
            calls: BTreeSet::new(),
            of,
        };
        for input in &signature.inputs {
            match input {
                syn::FnArg::Receiver(_) => {
                    let own = function.of.as_deref().and_then(part);
                    function.takes = larger(function.takes, own);
                }
                syn::FnArg::Typed(typed) => {
                    function.takes = larger(function.takes, part_in(&typed.ty));
                    let now = matches!(&*typed.pat, syn::Pat::Ident(name) if name.ident == "now");
                    function.arguments += usize::from(!now);
                }
            }
        }
        let mut calls = Calls { found: BTreeSet::new(), state_writes: 0 };
        calls.visit_block(body);
        function.calls = calls.found;
        self.state_writes += calls.state_writes;
        let span = body.span();
        self.bodies.push((span.start().line, span.end().line));
        self.functions.push(function);
    }
}

/// The element of [`PARTS`] with this name.
fn part(name: &str) -> Option<&'static str> {
    PARTS.into_iter().find(|part| *part == name)
}

/// The larger one of two parts.
fn larger(one: Option<&'static str>, other: Option<&'static str>) -> Option<&'static str> {
    PARTS.into_iter().find(|part| one == Some(*part) || other == Some(*part))
}

/// The element of [`PARTS`] that the type is or refers to.
fn part_in(ty: &syn::Type) -> Option<&'static str> {
    match ty {
        syn::Type::Reference(inner) => part_in(&inner.elem),
        syn::Type::Path(path) => path.path.segments.last().and_then(|last| part(&last.ident.to_string())),
        _ => None,
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let name = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        self.of.push(name.unwrap_or_else(|| "?".to_owned()));
        self.public.push(item.trait_.is_some());
        visit::visit_item_impl(self, item);
        self.of.pop();
        self.public.pop();
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        let public = matches!(item.vis, syn::Visibility::Public(_));
        self.function(&item.sig, public, &item.block);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            let public = matches!(item.vis, syn::Visibility::Public(_));
            self.function(&item.sig, public, &item.block);
        }
    }
}

struct Calls {
    found: BTreeSet<Callee>,
    state_writes: usize,
}

impl<'ast> Visit<'ast> for Calls {
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let name = call.method.to_string();
        let own = matches!(&*call.receiver, syn::Expr::Path(path) if path.path.is_ident("self"));
        let by_name = name == "go" && call.args.first().is_some_and(names_state);
        if by_name || name == "take" && is_standing(&call.receiver) {
            self.state_writes += 1;
        }
        self.found.insert(if own { Callee::Own(name) } else { Callee::Method(name) });
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_assign(&mut self, assign: &'ast syn::ExprAssign) {
        if names_state(&assign.right) || is_standing(&assign.left) {
            self.state_writes += 1;
        }
        visit::visit_expr_assign(self, assign);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let syn::Expr::Path(path) = &*call.func
            && let Some(name) = path.path.segments.last()
            && qualifier(&path.path).is_none()
        {
            self.found.insert(Callee::Free(name.ident.to_string()));
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_path(&mut self, expression: &'ast syn::ExprPath) {
        if let (Some(of), Some(name)) = (qualifier(&expression.path), expression.path.segments.last()) {
            self.found.insert(Callee::Of(of, name.ident.to_string()));
        }
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        // Macros whose arguments are expressions, such as `matches!` and `debug_assert!`.
        if let Ok(inner) =
            item.parse_body_with(syn::punctuated::Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated)
        {
            inner.iter().for_each(|expression| self.visit_expr(expression));
        }
    }
}

/// The type in `Type::name`.
fn qualifier(path: &syn::Path) -> Option<String> {
    let of = path.segments.iter().rev().nth(1)?.ident.to_string();
    of.starts_with(char::is_uppercase).then_some(of)
}

/// Whether the expression is `State::…`.
fn names_state(expression: &syn::Expr) -> bool {
    let syn::Expr::Path(path) = expression else { return false };
    let mut segments = path.path.segments.iter().rev();
    segments.next().is_some() && segments.next().is_some_and(|of| of.ident == "State")
}

/// Whether the expression is a field `standing`, which holds the state of a call.
fn is_standing(expression: &syn::Expr) -> bool {
    matches!(expression, syn::Expr::Field(field) if matches!(&field.member, syn::Member::Named(name) if name == "standing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Source {
        parse("a.rs".into(), text).expect("it is Rust")
    }

    #[test]
    fn functions_that_take_the_engine_or_a_part_are_found_as_methods_and_as_arguments() {
        let source = read(
            "impl Engine { pub fn one(&self) {} fn new() -> Self { Self } }
             fn two(engine: &mut Engine, now: Time, more: u8) {}
             impl Other { fn three(&self) {} }
             impl FleetDesk<'_> { fn four(&mut self, desk: &Desk) {} }
             impl Pool { fn five(&mut self, desk: &mut Desk) {} }",
        );
        let taking: Vec<(&str, &str)> = source
            .functions
            .iter()
            .filter_map(|function| Some((function.name.as_str(), function.takes?)))
            .collect();
        let expected = [
            ("Engine::one", "Engine"),
            ("two", "Engine"),
            ("FleetDesk::four", "FleetDesk"),
            ("Pool::five", "Desk"),
        ];
        assert_eq!(taking, expected);
        assert_eq!(source.functions[2].arguments, 2, "`now` does not count");
    }

    #[test]
    fn marks_count_outside_comments_and_those_in_bodies_twice() {
        let source = read(
            "// FULL in a comment\n#[cfg(tidegate_small)]\nuse a::b;\nfn f() {\n    if FULL {\n        g();\n    }\n}\nconst FULLY: u8 = 1;\n",
        );
        assert_eq!(source.marks, ["a.rs:2", "a.rs:5"]);
        assert_eq!(source.marks_in_bodies, ["a.rs:5"]);
    }

    #[test]
    fn writes_of_a_state_are_found() {
        let source = read(
            "fn f(call: &mut Call) { call.standing.take(&WAY); call.standing = Standing::FREE; other.take(); \
             call.go(State::Body); if call.state == State::Body {} }",
        );
        assert_eq!(source.state_writes, 3);
    }

    #[test]
    fn tests_are_no_part_of_it() {
        let source =
            read("#[cfg(test)] mod tests { fn f(engine: &Engine) {} }  #[test] fn g(engine: &Engine) {}");
        assert!(source.functions.is_empty());
    }
}
