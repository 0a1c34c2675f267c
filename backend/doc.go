// Package backend answers the status socket: what this host knows of itself, the
// cluster, its jobs and its log, and the changes that an operator or a submitter
// asks for. A Backend is made of one type per area of the API, each in a file of
// its own with the few readers that it needs. Changes that another host must carry
// out go through package forward; what this host carries out for others in these
// areas is registered by Handle.
//
// Non-goals: it serves no HTTP, which package status does, makes no decision that
// belongs to a pure package, and keeps no state but caches: the state's hash, the
// rate of jobs, the last check of the log.
//
// Goroutines: Run blocks until its context ends; the caller owns it and those of its parts. A submit starts one per voter that gets an artefact and one per
// directory is started to verify an onion address; all end with the call.
package backend
