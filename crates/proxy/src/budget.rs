//! How much all sessions of a thread may hold together.

use std::cell::Cell;
use std::rc::Rc;

/// Bytes that may be held, shared by all who hold some.
#[derive(Clone)]
pub struct Budget(Rc<(Cell<usize>, usize)>);

impl Budget {
    pub fn new(most: usize) -> Budget {
        Budget(Rc::new((Cell::new(0), most)))
    }

    /// Takes so many bytes; false where that would be too many.
    #[inline]
    pub fn take(&self, bytes: usize) -> bool {
        let used = self.0.0.get().saturating_add(bytes);
        let fits = used <= self.0.1;
        if fits {
            self.0.0.set(used);
        }
        fits
    }

    /// Gives back what was taken.
    #[inline]
    pub fn give(&self, bytes: usize) {
        self.0.0.set(self.0.0.get() - bytes);
    }

    #[cfg(test)]
    pub fn used(&self) -> usize {
        self.0.0.get()
    }
}

/// Bytes that count against a budget as long as they are there.
pub struct Held {
    bytes: Box<[u8]>,
    budget: Budget,
}

impl Held {
    /// None where the budget has no room for them.
    pub fn new(bytes: Vec<u8>, budget: &Budget) -> Option<Held> {
        budget.take(bytes.len()).then(|| Held { bytes: bytes.into(), budget: budget.clone() })
    }
}

impl std::ops::Deref for Held {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.give(self.bytes.len());
    }
}
