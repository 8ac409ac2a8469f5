//! The meaning of each check, and the sources of its advice: `docs/doctor/checks.md`.

use crate::finding::Link;

/// A section for each check, headed by its key, with a list of links at its end.
const TEXT: &str = include_str!("../../../docs/doctor/checks.md");

/// The explanation of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Its paragraphs, a line each.
    pub text: Vec<&'static str>,
    /// The sources of its advice.
    pub links: Vec<Link>,
}

/// The explanation of the check with this key; None if there is no such check.
pub fn of(key: &str) -> Option<Explanation> {
    let sections = TEXT.split("\n## ").skip(1);
    let (_, section) = sections.filter_map(|it| it.split_once('\n')).find(|it| it.0 == key)?;
    let lines = || section.lines().filter(|line| !line.is_empty());
    let text = lines().filter(|line| link(line).is_none()).collect();
    Some(Explanation { text, links: lines().filter_map(link).collect() })
}

/// The link of a line `- [TITLE](URL)`.
fn link(line: &str) -> Option<Link> {
    let (title, url) = line.strip_prefix("- [")?.strip_suffix(')')?.rsplit_once("](")?;
    Some(Link { title: title.into(), url: url.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "containers")]
    #[test]
    fn every_check_and_nothing_else_is_explained() {
        let sections = TEXT.split("\n## ").skip(1).filter_map(|it| it.lines().next());
        assert!(sections.eq(crate::checks().map(|check| check.key)));
    }

    #[test]
    fn every_explanation_has_a_text_and_a_source() {
        for check in crate::checks() {
            let Explanation { text, links } = of(check.key).expect(check.key);
            assert!(!text.is_empty() && !links.is_empty(), "{}", check.key);
            assert!(links.iter().all(|it| it.url.starts_with("https://")), "{links:?}");
            assert!(text.iter().all(|line| !line.starts_with('-')), "{text:?}");
        }
        assert_eq!(of("no-such-check"), None);
    }
}
