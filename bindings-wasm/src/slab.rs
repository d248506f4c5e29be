//! Things by number, for hosts. The file is compiled into the modules of the engine and into that of the parts.

/// Things by number. The number of a thing that has been removed is given to a later one.
pub struct Slab<T> {
    pub places: Vec<Option<T>>,
    pub free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Stores a thing and returns its number.
    pub fn add(&mut self, thing: T) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        self.places[number as usize] = Some(thing);
        number
    }

    /// The thing with this number, if there is one.
    #[inline]
    pub fn get(&mut self, number: u32) -> Option<&mut T> {
        self.places.get_mut(number as usize)?.as_mut()
    }

    /// Removes a thing, if there is one.
    pub fn remove(&mut self, number: u32) -> Option<T> {
        let thing = self.places.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(thing)
    }
}
