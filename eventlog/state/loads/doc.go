// Package loads folds which load tests run on hosts, and what they came to. Of what was
// said of one the latest counts.
//
// Non-goals: carrying one out (gang), its figures, which lie in the artefact that the end
// names.
//
// Goroutines: none.
package loads
