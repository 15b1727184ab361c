//! The functions an expression can call.

use super::nearest::nearest;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Function {
    Abs,
    Debug,
    Double,
    Exp,
    Greatest,
    HashFnv1a,
    HashMurmur2,
    Int,
    Least,
    Ln,
    Mod,
    Permute,
    Pi,
    Power,
    Random,
    RandomExponential,
    RandomGaussian,
    RandomZipfian,
    Sqrt,
    SysbenchZipf,
}

/// Most arguments a function may have.
const MOST: usize = 16;

/// Name, function, fewest and most arguments.
const FUNCTIONS: [(&str, Function, usize, usize); 22] = [
    ("abs", Function::Abs, 1, 1),
    ("debug", Function::Debug, 1, 1),
    ("double", Function::Double, 1, 1),
    ("exp", Function::Exp, 1, 1),
    ("greatest", Function::Greatest, 1, MOST),
    ("hash", Function::HashMurmur2, 1, 2),
    ("hash_fnv1a", Function::HashFnv1a, 1, 2),
    ("hash_murmur2", Function::HashMurmur2, 1, 2),
    ("int", Function::Int, 1, 1),
    ("least", Function::Least, 1, MOST),
    ("ln", Function::Ln, 1, 1),
    ("mod", Function::Mod, 2, 2),
    ("permute", Function::Permute, 2, 3),
    ("pi", Function::Pi, 0, 0),
    ("pow", Function::Power, 2, 2),
    ("power", Function::Power, 2, 2),
    ("random", Function::Random, 2, 2),
    ("random_exponential", Function::RandomExponential, 3, 3),
    ("random_gaussian", Function::RandomGaussian, 3, 3),
    ("random_zipfian", Function::RandomZipfian, 3, 3),
    ("sqrt", Function::Sqrt, 1, 1),
    ("sysbench_zipf", Function::SysbenchZipf, 3, 3),
];

impl Function {
    /// The function of a name, in any case; the message says which name may have been meant.
    pub fn find(name: &str) -> Result<Function, String> {
        match FUNCTIONS.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name)) {
            Some((_, function, ..)) => Ok(*function),
            None => {
                let hint = nearest(name, FUNCTIONS.iter().map(|(known, ..)| *known))
                    .map_or(String::new(), |known| format!("; did you mean \"{known}\"?"));
                Err(format!("unexpected function name \"{name}\"{hint}"))
            }
        }
    }

    /// Checks how many arguments a call of the function by `name` has.
    pub fn check_arguments(name: &str, given: usize) -> Result<(), String> {
        let Some((_, _, fewest, most)) =
            FUNCTIONS.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name))
        else {
            return Ok(());
        };
        if (*fewest..=*most).contains(&given) {
            return Ok(());
        }
        let expected = match (*fewest, *most) {
            (1, MOST) => format!("1 to {MOST} arguments"),
            (0, 0) => "no argument".into(),
            (1, 1) => "1 argument".into(),
            (fewest, most) if fewest == most => format!("{fewest} arguments"),
            (fewest, most) => format!("{fewest} or {most} arguments"),
        };
        Err(format!("unexpected number of arguments: {name} takes {expected}, not {given}"))
    }
}
