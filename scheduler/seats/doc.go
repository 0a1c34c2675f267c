// Package seats knows the outside workers of one term: which host carries each, in which
// session, and how it is. It tells the plan of them as of any worker.
//
// Sessions. A worker may attach to any host that lets it in, and to another one later.
// The highest session is the one: the host that has an earlier one is told to drop it,
// and one that comes with an earlier one is told which is known.
//
// Belief. Whose an outside worker is, where it is and whether it is trusted is what the
// log says. One that the log does not know is a visitor, a stranger without rights of a
// user. What the host that carries it says of it decides nothing else.
//
// Health. An outside worker is suspect when nothing came from it for SuspectAfter, or
// when the host that carries it is; after DeadAfter it is dead. One that the log names
// and that does not join until then has left. After ForgetAfter so has any.
//
// Non-goals: streams, and what runs where. It is pure. Goroutines: none.
package seats
