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
// Records commute as far as they can: for the same key the newest cert and the
// highest epoch win, two keys with one node id or address are settled by rank
// (root-signed, then earlier issue, then lower key), and two announcements of
// one epoch are kept as evidence. Hosts with the same records have the same
// Digest.
//
// Non-goals: sockets, files, when to send what. The package starts no
// goroutine; Table and Detector belong to one goroutine of the caller. The
// order of returned slices is by node id unless stated otherwise.
package member
