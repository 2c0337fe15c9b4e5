//! The codec of every service: a request with a field or enum value that this build does not know is refused.
//!
//! prost drops what it does not know. For a spec that would mean applying less than was asked for, silently
//! (promise P9), so requests are decoded with their descriptors first. Answers are not: an older client may
//! read a newer server's answer.

use std::marker::PhantomData;

use bytes::{Buf, Bytes};
use prost::Message;
use prost_reflect::{DynamicMessage, EnumDescriptor, Kind, MessageDescriptor, ReflectMessage, Value};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic_prost::ProstEncoder;

/// Encodes like tonic's own codec; decodes requests strictly.
#[derive(Debug, Clone)]
pub struct StrictCodec<Encode, Decode>(PhantomData<(Encode, Decode)>);

impl<Encode, Decode> Default for StrictCodec<Encode, Decode> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<Encode, Decode> Codec for StrictCodec<Encode, Decode>
where
    Encode: Message + Send + 'static,
    Decode: Message + ReflectMessage + Default + Send + 'static,
{
    type Encode = Encode;
    type Decode = Decode;
    type Encoder = ProstEncoder<Encode>;
    type Decoder = StrictDecoder<Decode>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(BufferSettings::default())
    }

    fn decoder(&mut self) -> Self::Decoder {
        StrictDecoder(PhantomData)
    }
}

/// The decoding half of [`StrictCodec`].
#[derive(Debug, Clone)]
pub struct StrictDecoder<Decode>(PhantomData<Decode>);

impl<Decode: Message + ReflectMessage + Default> Decoder for StrictDecoder<Decode> {
    type Item = Decode;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Decode>, Status> {
        let bytes = source.copy_to_bytes(source.remaining());
        let descriptor = Decode::default().descriptor();
        let message = if descriptor.name().ends_with("Request") {
            decode_strictly(&descriptor, bytes)
        } else {
            Decode::decode(bytes).map_err(|error| Unknown::Malformed(error.to_string()))
        };
        message.map(Some).map_err(|error| Status::invalid_argument(error.to_string()))
    }
}

/// Why a message was refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Unknown {
    /// Not a message of this type at all.
    #[error("the message cannot be decoded: {0}")]
    Malformed(String),
    /// A field that this build does not know.
    #[error(
        "{message} has field number {number} at `{path}`, which this version does not know; nothing was touched: \
         update this side, or do not declare it"
    )]
    Field {
        /// The message's full name.
        message: String,
        /// The field's number on the wire.
        number: u32,
        /// Where the message stands in the request; empty for the request itself.
        path: String,
    },
    /// An enum value that this build does not know.
    #[error(
        "`{path}` has the value {number}, which {enumeration} does not have in this version; nothing was touched"
    )]
    EnumValue {
        /// The enum's full name.
        enumeration: String,
        /// The value on the wire.
        number: i32,
        /// Where it stands in the request.
        path: String,
    },
}

/// Decodes a message of a generated type, refusing unknown fields and enum values anywhere in it.
pub fn decode_strictly<T: Message + Default>(
    descriptor: &MessageDescriptor,
    bytes: Bytes,
) -> Result<T, Unknown> {
    let malformed = |error: prost::DecodeError| Unknown::Malformed(error.to_string());
    let dynamic = DynamicMessage::decode(descriptor.clone(), bytes.clone()).map_err(malformed)?;
    refuse_unknown(&dynamic, "")?;
    T::decode(bytes).map_err(malformed)
}

fn refuse_unknown(message: &DynamicMessage, path: &str) -> Result<(), Unknown> {
    if let Some(field) = message.unknown_fields().next() {
        return Err(Unknown::Field {
            message: message.descriptor().full_name().to_owned(),
            number: field.number(),
            path: path.to_owned(),
        });
    }
    for (field, value) in message.fields() {
        let path = if path.is_empty() { field.name().to_owned() } else { format!("{path}.{}", field.name()) };
        let kind = match field.kind() {
            Kind::Message(entry) if field.is_map() => entry.map_entry_value_field().kind(),
            kind => kind,
        };
        refuse_in_value(value, kind.as_enum(), &path)?;
    }
    Ok(())
}

fn refuse_in_value(value: &Value, enumeration: Option<&EnumDescriptor>, path: &str) -> Result<(), Unknown> {
    match value {
        Value::Message(message) => refuse_unknown(message, path),
        Value::List(values) => values
            .iter()
            .enumerate()
            .try_for_each(|(index, value)| refuse_in_value(value, enumeration, &format!("{path}[{index}]"))),
        Value::Map(entries) => entries.iter().try_for_each(|(key, value)| {
            let key = key.as_str().map_or_else(|| format!("{key:?}"), str::to_owned);
            refuse_in_value(value, enumeration, &format!("{path}[{key}]"))
        }),
        Value::EnumNumber(number) => match enumeration {
            Some(enumeration) if enumeration.get_value(*number).is_none() => Err(Unknown::EnumValue {
                enumeration: enumeration.full_name().to_owned(),
                number: *number,
                path: path.to_owned(),
            }),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
