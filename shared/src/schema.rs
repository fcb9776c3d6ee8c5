//! The schemas of types, for the OpenAPI document.
//!
//! No function that is deployed has this: the document is made by a test.

use std::collections::BTreeMap;

use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

/// The schema of a type, and those that it refers to.
#[derive(Clone)]
pub struct Schemas {
    /// The type's name in the document.
    pub name: String,
    /// All schemas by their names, the type's own among them.
    pub all: BTreeMap<String, RefOr<Schema>>,
}

impl Schemas {
    /// The schemas of `T`.
    #[must_use]
    pub fn of<T: ToSchema>() -> Self {
        let mut all = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut all);
        Self { name: T::name().into_owned(), all: all.into_iter().collect() }
    }
}

impl std::fmt::Debug for Schemas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schemas").field("name", &self.name).finish_non_exhaustive()
    }
}
