//! Names of Rust as other languages have them.

/// `max_routes` as `MaxRoutes`.
pub fn pascal(name: &str) -> String {
    let upper = |word: &str| {
        let mut letters = word.chars();
        letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    };
    name.split('_').map(upper).collect()
}

/// `max_routes` as `maxRoutes`.
pub fn camel(name: &str) -> String {
    let mut words = name.splitn(2, '_');
    let first = words.next().unwrap_or_default().to_owned();
    first + &words.next().map_or_else(String::new, pascal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_joined() {
        assert_eq!((camel("max_routes").as_str(), pascal("max_routes").as_str()), ("maxRoutes", "MaxRoutes"));
        assert_eq!((camel("on").as_str(), pascal("Settings").as_str()), ("on", "Settings"));
    }
}
