//! What a volume holds, in words.

use crate::guard::bytes_in_words;
use crate::proto::v1::VolumeContents;

/// For people: `anonymous, 3 files, 1.2 MiB`.
pub fn words(volume: &VolumeContents) -> String {
    let anonymous = volume.anonymous.then(|| "anonymous".to_owned());
    let files =
        volume.files.map(|files| if files == 1 { "1 file".to_owned() } else { format!("{files} files") });
    let detail = (!volume.detail.is_empty()).then(|| volume.detail.clone());
    let parts = [anonymous, files, volume.bytes.map(bytes_in_words), detail];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_said_and_no_more() {
        let volume = VolumeContents { files: Some(1), bytes: Some(1_258_291), ..VolumeContents::default() };
        assert_eq!(words(&volume), "1 file, 1.1 MiB");
        let volume = VolumeContents { anonymous: true, detail: "not counted".to_owned(), ..volume };
        let volume = VolumeContents { files: None, bytes: Some(17), ..volume };
        assert_eq!(words(&volume), "anonymous, 17 bytes, not counted");
    }
}
