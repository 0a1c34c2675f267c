// Package stamps judges the times that events carry. The others refuse events
// from the future, and with them all that follows in the chain: a host whose
// clock was ahead for a moment would lock its chain out for as long as it was
// ahead. So a host writes nothing before MayWrite says that its clock is to be
// trusted, and a chain that runs ahead all the same is ended where TakeBack
// allows it: what its host wrote there is taken back, and the host goes on with a
// new incarnation.
//
// Why nothing is lost by that. What exercised the lease counts when it is stable.
// It is taken back only if so many voters lack it that it never was, and cannot
// become so: their answers and the end of the chain come from the one host that
// could have reported it stable. Facts, which never need a majority, are written
// again in the new chain.
//
// It decides only: facts are arguments, and there are no goroutines.
package stamps
