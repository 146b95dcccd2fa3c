//! Lines in the order of their last use: how many were used after a given one.

/// Marks in one word.
const BITS: usize = 64;

/// Words that are counted one by one; beyond, the tree is faster.
const NEAR: usize = 16;

/// Slots at first.
const FIRST_SLOTS: usize = BITS;

/// Slots in the order of time, one per use; the slot of each line's last use is marked.
///
/// A Fenwick tree over words of 64 marks counts them. When the slots are used up, the marked ones
/// move together at the front: memory depends on the number of lines, not of uses, and the cost of
/// moving is shared by at least as many uses as there are lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    marks: Vec<u64>,
    /// Fenwick: `tree[i]` counts the words from `i + 1 - lowbit(i + 1)` to `i`.
    tree: Vec<u32>,
    /// The line of each slot, by its number.
    lines: Vec<u32>,
    /// The slot that comes next.
    next: usize,
    marked: usize,
}

impl Order {
    /// Lines that are in it.
    pub(super) fn len(&self) -> usize {
        self.marked
    }

    /// The line of the newest use.
    #[inline]
    pub(super) fn newest(&self) -> Option<u32> {
        self.lines[..self.next].last().copied()
    }

    /// Lines used after `slot`, which is marked.
    #[inline]
    pub(super) fn after(&self, slot: usize) -> usize {
        let (word, last) = (slot / BITS, (self.next - 1) / BITS);
        // Marks of its word above its own.
        let own = (self.marks[word] >> (slot % BITS) >> 1).count_ones() as usize;
        if last - word <= NEAR {
            let between = &self.marks[word + 1..=last];
            return own
                + between
                    .iter()
                    .map(|m| m.count_ones() as usize)
                    .sum::<usize>();
        }
        let (mut before, mut at) = (0, word + 1);
        while at > 0 {
            before += self.tree[at - 1] as usize;
            at &= at - 1;
        }
        own + self.marked - before
    }

    /// Use `line`, last used at `old` if it was; yields its new slot. Slots of other lines change
    /// if there is no room: `moved` is told each line with its new slot.
    #[inline]
    pub(super) fn use_line(
        &mut self,
        line: u32,
        old: Option<usize>,
        moved: impl FnMut(u32, usize),
    ) -> usize {
        if let Some(old) = old {
            self.marks[old / BITS] &= !(1 << (old % BITS));
            self.marked -= 1;
        }
        if self.next == self.lines.len() {
            // Makes the tree anew, from marks that the old use is no longer among.
            self.next = self.compact(moved);
            self.add(self.next / BITS, 1);
        } else {
            let (from, to) = (old.map(|old| old / BITS), self.next / BITS);
            if from != Some(to) {
                if let Some(from) = from {
                    self.add(from, u32::MAX);
                }
                self.add(to, 1);
            }
        }
        let new = self.next;
        self.next = new + 1;
        self.marks[new / BITS] |= 1 << (new % BITS);
        self.lines[new] = line;
        self.marked += 1;
        new
    }

    /// Add to the count of a word; `u32::MAX` takes one away.
    #[inline]
    fn add(&mut self, word: usize, count: u32) {
        let mut at = word;
        while let Some(sum) = self.tree.get_mut(at) {
            *sum = sum.wrapping_add(count);
            at |= at + 1;
        }
    }

    /// Move all marked slots to the front and make at least as many free; the first free one.
    #[cold]
    fn compact(&mut self, mut moved: impl FnMut(u32, usize)) -> usize {
        let mut to = 0;
        for word in 0..self.marks.len() {
            let mut marks = std::mem::take(&mut self.marks[word]);
            while marks != 0 {
                let slot = word * BITS + marks.trailing_zeros() as usize;
                marks &= marks - 1;
                let line = self.lines[slot];
                self.lines[to] = line;
                moved(line, to);
                to += 1;
            }
        }
        let slots = (2 * to)
            .next_multiple_of(BITS)
            .max(FIRST_SLOTS)
            .max(self.lines.len());
        self.lines.resize(slots, 0);
        self.marks.resize(slots / BITS, 0);
        for slot in 0..to {
            self.marks[slot / BITS] |= 1 << (slot % BITS);
        }
        self.tree.clear();
        self.tree.resize(slots / BITS, 0);
        for word in 0..self.marks.len() {
            let sum = self.tree[word] + self.marks[word].count_ones();
            self.tree[word] = sum;
            if let Some(parent) = self.tree.get_mut(word | (word + 1)) {
                *parent += sum;
            }
        }
        to
    }
}
