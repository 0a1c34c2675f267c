// Package flows folds runs of workflows.
//
// A run is kept as the events about it, in the order of all sources, whichever came
// first: what they mean is read from them then, so that no order of arrival matters.
// Of two submissions the first counts, as of two starts or ends of the same try. An
// event may come before the submission; a run without one is not shown. That a run is
// forgotten ends all events about it that lie before.
//
// Non-goals: what a definition means, and what is to be done next, which
// scheduler/flow decides.
//
// Goroutines: none.
package flows
