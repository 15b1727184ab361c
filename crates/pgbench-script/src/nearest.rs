//! The name a misspelt name was probably meant to be.

use strsim::osa_distance;

/// The candidate with the fewest edits to `word`, if they are few enough to be a slip.
pub(super) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
    // A name this long is no slip of anything, and the comparison is quadratic.
    if word.len() > 64 {
        return None;
    }
    let allowed = (word.len() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| {
            // The beginning of a name is a name cut short, however much is missing.
            let is_start = word.len() > 2 && candidate.starts_with(&word);
            (if is_start { 1 } else { osa_distance(&word, candidate) }, candidate)
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
