//! What the templates do with texts: names, paragraphs, comments, lines that fit.

/// The paragraphs of a text, which empty lines separate.
pub fn paragraphs(text: &'static str) -> Vec<&'static str> {
    text.trim().split("\n\n").collect()
}

/// The lines from `== <what>` to the next such heading.
pub fn section(file: &'static str, what: &str) -> &'static str {
    let head = format!("== {what}\n");
    file.split_once(head.as_str())
        .map_or("", |(_, rest)| rest.split("\n== ").next().unwrap_or_default())
        .trim_end()
}

/// The name in most languages: `max_attempts` becomes `maxAttempts`.
pub fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

/// The name of a type: `rate_limit` becomes `RateLimit`.
pub fn type_name(name: &str) -> String {
    name.split('_')
        .filter(|word| !word.is_empty())
        .map(|word| word[..1].to_uppercase() + &word[1..])
        .collect()
}

/// A text with its keys in camel case.
pub fn translated(text: &str) -> String {
    let mut text = text.to_owned();
    let names = tidegate::TABLE.iter().map(|key| key.path.rsplit('.').next().unwrap_or_default());
    let mut names: Vec<_> = names.filter(|name| name.contains('_')).collect();
    // Longer names first, so that no name is replaced within a longer one.
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    for name in names {
        text = text.replace(name, &camel(name));
    }
    text
}

/// Wraps words in lines of at most `width` characters, the first behind one indent, the others behind another.
pub fn wrapped(words: &str, width: usize, first: &str, rest: &str) -> String {
    let (mut text, mut line, mut empty) = (String::new(), first.to_owned(), true);
    for word in words.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > width {
            text += line.trim_end();
            text.push('\n');
            (line, empty) = (rest.to_owned(), true);
        }
        if !empty {
            line.push(' ');
        }
        line += word;
        empty = false;
    }
    text + line.trim_end()
}

/// Puts an indent before each line that is not empty.
pub fn indented(lines: &str, indent: &str) -> String {
    let line = |line: &str| if line.is_empty() { String::new() } else { format!("{indent}{line}") };
    lines.trim_matches('\n').lines().map(line).collect::<Vec<_>>().join("\n")
}

/// A comment of these paragraphs, on one line if it fits. No empty line separates tags, and examples stay unchanged.
pub fn comment(width: usize, indent: &str, doc: &[String]) -> String {
    if let [one] = doc
        && indent.len() + one.chars().count() + 7 <= width
    {
        return format!("{indent}/** {one} */");
    }
    let start = format!("{indent} * ");
    let mut lines = vec![format!("{indent}/**")];
    for (place, paragraph) in doc.iter().enumerate() {
        if place > 0 && !(doc[place - 1].starts_with('@') && paragraph.starts_with('@')) {
            lines.push(format!("{indent} *"));
        }
        let verbatim = paragraph.starts_with("@example") || paragraph.starts_with("```");
        lines.push(if verbatim {
            indented(paragraph, &start)
        } else {
            wrapped(paragraph, width, &start, &start)
        });
    }
    lines.push(format!("{indent} */"));
    lines.join("\n")
}

/// Items between brackets, as `ruff format` lays them out: on one line if they fit, otherwise one per line.
pub fn broken(width: usize, indent: &str, open: &str, items: &[String], close: &str) -> String {
    let remark = |item: &str| if item.starts_with("max: ") { "  # noqa: A002 - the key's name" } else { "" };
    let line = format!("{indent}{open}{}{close}", items.join(", "));
    if line.chars().count() <= width {
        return line
            + items.iter().map(|item| remark(item)).find(|note| !note.is_empty()).unwrap_or_default();
    }
    let inner = format!("{indent}    ");
    let mut lines = vec![format!("{indent}{open}")];
    for item in items {
        let choice = item.split_once("Literal[").and_then(|(head, rest)| Some((head, rest.split_once(']')?)));
        lines.push(match choice {
            Some((head, (words, tail))) if item.len() + indent.len() + 5 > width => {
                let words: Vec<_> = words.split(", ").map(str::to_owned).collect();
                broken(width, &inner, &format!("{head}Literal["), &words, &format!("]{tail},"))
            }
            _ => format!("{inner}{item},{}", remark(item)),
        });
    }
    lines.push(format!("{indent}{close}"));
    lines.join("\n")
}

/// The value of a setting as code: a number or a word.
pub fn literal(value: &str) -> String {
    if value.parse::<f64>().is_ok() { value.into() } else { format!("\"{value}\"") }
}
