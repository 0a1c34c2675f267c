// Package jobwatch lets any host show a job as its holder sees it.
//
// A host's own log trails the holder's: by little in a quiet cluster, by a lot
// while the host catches up or is badly connected. Whoever watches a job at a
// host that is not the holder therefore sees what the holder sends
// (forward.FollowJob), unless the host's own log is ahead of that. If the holder
// is not reached, or too old to know the operation, the host's own log has to do.
// The end of a job is always shown from that log, so that its results can be found
// on the same host right after.
//
// Where the holder is in another zone one host of the zone, the Relay, follows it for the
// others, which follow that one (forward.FollowJobNear, Hub.ServeNear).
//
// Hub.Serve is the holder's side, Hub.Watch everybody's. However many readers
// watch a job on one host, the holder sends it to that host once.
//
// Goroutines: one for each job that is watched, which ends with the last Close
// of its Watches.
package jobwatch
