//! temporary
/// x
pub fn validate(_: &crate::proto::v1::ModuleSpec) -> Result<(), Vec<String>> { Ok(()) }
