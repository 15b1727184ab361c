//! The text of a script, and errors at places in it.

use super::error::ScriptError;

/// Characters of a line shown before and after the place of an error.
const SHOWN: usize = 60;

/// An error at a byte of the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SyntaxError {
    pub offset: usize,
    pub message: String,
}

impl SyntaxError {
    pub fn at<T>(offset: usize, message: impl Into<String>) -> Result<T, SyntaxError> {
        Err(SyntaxError { offset, message: message.into() })
    }
}

/// The `error` in `text`.
pub(super) fn locate(file: &str, text: &str, error: SyntaxError) -> ScriptError {
    let offset = (0..=error.offset.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    let before = &text[..offset];
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
    let column = text[start..offset].chars().count();
    let skipped = column.saturating_sub(SHOWN);
    let shown: String = text[start..]
        .chars()
        .take_while(|&character| character != '\n')
        .skip(skipped)
        .take(2 * SHOWN)
        // A tab or another control character would move the caret away from its place.
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    ScriptError {
        file: file.into(),
        line,
        column: column + 1,
        message: error.message,
        source_line: shown.trim_end().into(),
        caret: column - skipped,
    }
}

/// The text of a script file. Fails at the first byte that is not UTF-8.
pub fn decode<'a>(bytes: &'a [u8], file: &str) -> Result<&'a str, ScriptError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let good = error.valid_up_to();
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(good + SHOWN)]);
        let message = format!("byte 0x{:02x} is not UTF-8; save the script in UTF-8", bytes[good]);
        locate(file, &text, SyntaxError { offset: good, message })
    })
}
