//! What a model is asked to do beyond the machine.

use super::attribution::FIELDS;

/// A set of field numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSet([u64; FIELDS as usize / 64]);

impl Default for FieldSet {
    fn default() -> FieldSet {
        FieldSet([0; FIELDS as usize / 64])
    }
}

impl FieldSet {
    /// Add the field `id`, below [`FIELDS`].
    ///
    /// # Panics
    /// If it is not.
    pub fn insert(&mut self, id: u16) {
        assert!(id < FIELDS, "field {id} is beyond {FIELDS}");
        self.0[usize::from(id / 64)] |= 1 << (id % 64);
    }

    /// Whether the field `id` is in it.
    #[inline]
    #[must_use]
    pub fn contains(&self, id: u16) -> bool {
        self.0
            .get(usize::from(id / 64))
            .is_some_and(|word| word >> (id % 64) & 1 == 1)
    }
}

impl FromIterator<u16> for FieldSet {
    fn from_iter<I: IntoIterator<Item = u16>>(ids: I) -> FieldSet {
        let mut set = FieldSet::default();
        ids.into_iter().for_each(|id| set.insert(id));
        set
    }
}

/// What a model is asked to do beyond the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelOptions {
    /// Cache levels (1, 2, ...) whose misses are told apart by cause.
    pub classify: Vec<u8>,
    /// Fields whose accesses the caches do not see: they yield their data and take an L1D hit's
    /// time.
    pub unseen: FieldSet,
    /// Cores, from 1 to those of the machine's interconnect.
    pub cores: usize,
}

impl Default for ModelOptions {
    fn default() -> ModelOptions {
        ModelOptions {
            classify: vec![1],
            unseen: FieldSet::default(),
            cores: 1,
        }
    }
}
