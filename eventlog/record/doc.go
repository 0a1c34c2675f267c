// Package record is the byte form of the event log: events, signed heads,
// segment headers, and the frames that carry them in a file and on a stream.
// It is pure: bytes in, values out, and the reverse.
//
// A segment file is Magic followed by frames. The first frame is a Header.
// Then come commit groups: one or more events and, last, the signed head of
// the chain after them. A group counts only with its head: a group whose head
// is missing was never acknowledged to anyone. A full segment ends with a
// Seal; blank space (zero bytes) may follow the last frame of a file that is
// still being written.
//
// A frame is, little-endian,
//
//	length u32 | crc u32 | type u8 | base u64 | payload
//
// where length counts the payload, crc is CRC-32C over everything else in the
// frame, and base is the sequence number of the first event of the frame's
// commit group. The base tells a torn write from rot: groups are written one
// after the other, each synced before the next, so a readable frame of a
// later group behind an unreadable one proves that acknowledged bytes were
// lost, and only a readable frame of the same group may be the remains of an
// interrupted write.
//
// An event's hash is SHA-256("evt1" || previous hash || payload), over the
// exact bytes. Payloads are big-endian and canonical: each value has one
// encoding, and decoders refuse any other. Versions other than 1 are refused.
//
// Non-goals: files, sync and recovery, which belong to packages segment and
// store; replication, which belongs to packages wire and replicate. The package
// starts no goroutines.
package record
