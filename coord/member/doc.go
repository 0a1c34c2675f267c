// Package member holds what the cluster believes about its hosts: the signed
// records of membership, the table that merges them, and the failure detector.
//
// A host's identity is an Ed25519 key. A cert, signed by the root key or by a
// sponsor that the root key certified, binds that key to a node id and its
// mesh addresses. An ann, signed by the identity key itself, adds what the
// host may say about itself: WireGuard key, endpoints, zone, priority. A
// revoke, signed like a cert, ends the key. Records travel as opaque bytes and
// signature (Signed) and are never re-encoded.
//
// Records commute: hosts with the same records believe the same and have the
// same Digest, in whatever order they came. Of one key the newest certificate
// and the highest epoch win, and two announcements of one epoch are kept as
// evidence. Two keys with one node id are settled by rank (root-signed, then
// the older claim, then the lower key) and the loser is no member; two keys
// with one IPv4 address likewise, except that the loser stays a member by its
// IPv6 address, which is derived from the key, until a sponsor gives it
// another. A renewal keeps the age of a claim; no claim is older than the sponsor
// that signed it, so that the key of a sponsor takes nothing that was given
// before it became one. Two announcements of one WireGuard key are settled like
// two node ids: the loser stays certified and is no member until one of the two
// announces another key. Who names another's key as its next one gets nothing.
//
// A revocation beats every certificate of its key, whichever comes first. A
// sponsor revokes members, only the root key revokes sponsors, and every key
// may revoke itself, which is how a host leaves. What a revoked key was stays
// known: its node id names its events, and neither that nor its address is
// given away while one of its certificates could come back. A sponsor's end
// keeps its members with those who know them, but others accept them only once
// another sponsor has renewed them. What a sponsor revoked stays revoked when it
// leaves. When the root key ends it, dates prove nothing any more, since a thief
// may have its key: what it revoked binds only where it is known already, is not
// told, and yields to a certificate of another sponsor; whom it rightly removed
// is to be removed again.
//
// A sponsor revokes only keys whose certificate is known or comes along, and not
// for longer than certificates last. The table holds 2048 keys, of which 1024 are
// certified ones; to revoke one of these never fails for want of room, and 64
// places are for what the root key revokes. A full table forgets first what
// counts with no other host, as the hosts of a sponsor that the root key ended a
// day ago.
//
// An expired certificate or announcement is still told and accepted for
// ExpiredGrace, so that newcomers learn of members whose sponsor is away.
// After that hosts that hold it keep it until it is revoked, and do not tell
// others; it is no part of the Digest then. A revocation is told until every
// certificate of its key is beyond that point, then forgotten.
//
// Non-goals: sockets, files, when to send what. The package starts no
// goroutine; Table and Detector belong to one goroutine of the caller. The
// order of returned slices is by node id unless stated otherwise.
package member
