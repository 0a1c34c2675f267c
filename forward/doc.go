// Package forward carries operations to the host that must perform them: the
// lease holder, a sponsor, or a named host.
//
// Each operation is an Op, or a Stream if its answer is a sequence of frames,
// in a file of its own: its name on the wire, its types, where it runs, who
// may ask for it and how often. Operations lists all of them, and the table in
// docs/remote-operations.md is generated from that list. The package that does
// the work registers a function with Handle or HandleStream. Callers use
// AskHolder, AskSponsor or AskHost, FollowHolder or FollowHost, which work the
// same way whether the target is another host or this one.
//
// On the wire, an operation is one stream of protocol Proto: a JSON object with
// the operation's name as a key, answered by one JSON object or by lines of
// JSON (frames.go). Requests and answers of operations that are older than
// this package keep their form, so that old and new hosts can work together:
// testdata/golden.txt has them as older hosts write them.
//
// Back-pressure: nothing is queued. A slow reader blocks the handler's send,
// and is cut when one frame takes too long. Frames, waits, and the number of
// open streams are bounded.
//
// Non-goals: it does not authenticate (streams come from members whose key was
// checked), it stores nothing and retries nothing beyond one call, and it does
// not know what an operation means.
//
// Goroutines: asking another host starts one or two, and serving a stream two,
// all of which end with the call. Serve runs in the caller's goroutine. Handle
// must not be called once Serve may be.
package forward
