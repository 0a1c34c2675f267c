// Package access decides who asks and what they may do: the keys and roles of
// users, the proof that a request carries, and the table of roles and rights.
// Values in, values out: it reads no clock, keeps no user and opens no file.
//
// A program proves each request with a signature by a key of its user (Sign,
// Proof); a browser or curl carries a short token that the user's own key signed
// (Mint, Token). Neither needs a secret that a host has, so no host can make a
// proof for a user, and every host can check one from the event log alone.
package access
