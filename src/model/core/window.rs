//! The window: how many instructions are between dispatch and retirement.

/// When the last `n` instructions retired, in ticks: the next one enters when the oldest has left.
#[derive(Clone, Debug)]
pub struct Window {
    times: Vec<u64>,
    next: usize,
}

impl Window {
    pub fn new(entries: u32) -> Window {
        Window {
            times: vec![0; entries as usize],
            next: 0,
        }
    }

    /// The one that the next push replaces: `n` pushes ago, or 0.
    #[inline]
    pub fn oldest(&self) -> u64 {
        self.times[self.next]
    }

    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// What [`oldest`](Window::oldest) answers before each of the next pushes, if these are no more than
    /// the window has entries.
    #[inline(always)]
    pub fn oldest_few(&self) -> [u64; 8] {
        match self.times.get(self.next..self.next + 8) {
            Some(few) => few.try_into().expect("8 of them"),
            None => std::array::from_fn(|i| self.times[(self.next + i) % self.times.len()]),
        }
    }

    #[inline]
    pub fn push(&mut self, time: u64) {
        self.times[self.next] = time;
        self.next += 1;
        if self.next == self.times.len() {
            self.next = 0;
        }
    }
}
