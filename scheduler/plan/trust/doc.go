// Package trust decides how far workers are believed: what a worker has shown,
// which results are checked though it is believed, and when the opinions of several
// about one chunk settle it.
//
// Strangers are workers that no member of the cluster runs. Any of them may lie, and
// many may be one. Among opinions that agree one must be of somebody whose word
// counts, a member or a stranger that has shown ten right results; other strangers
// count once for each owner. Only where nobody is fit whose word counts, three owners
// are enough. What such agree on shows nothing of anybody.
//
// Non-goals: whom to ask, and what follows, which the plan decides.
//
// Goroutines: none.
package trust
