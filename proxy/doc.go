// Package proxy is what a host runs behind its onion service: it takes the
// connections that tor hands it and passes them to its targets, local services
// or other onions.
//
// Two modes. ModeHTTP reads requests: it sets Host, rewrites Location, the
// domains of cookies and the target's own origin in Content-Security-Policy,
// passes WebSocket and other upgrades, bounds headers, bodies and times, and
// answers 502 or 504 itself when the target fails. ModeTCP copies bytes.
//
// Several targets take turns, by request or, in ModeTCP, by connection; a client
// is not kept at one. A target that could not be connected to is passed over
// until it can be, which a health check finds out if no client does. A
// connection, or a request without a body, goes to the next target when one
// cannot be connected to, and fails when none can.
//
// A request reaches the target as this package wrote it, never as it came. Go's
// server refuses what can be read in two ways (two different lengths, bad names,
// unknown encodings); of a length beside chunks the chunks count, and the target
// sees them alone. The client's ideas of its own address and of the path that it
// asks for (X-Forwarded-*, Forwarded, X-Original-URL and the like) are removed, and
// the connection to the target is written anew. The client is unknown behind tor,
// so no X-Forwarded-For is made.
//
// Health: each target is checked every Check.Every. In ModeHTTP it is asked for
// Check.Path and must answer as it should within Check.Within; in ModeTCP it must
// take a connection, so one that hangs is not noticed. Three checks in a row that
// fail make it unhealthy, three that succeed healthy again; each change is passed
// to Options.OnHealth once. Clients go to targets that are unhealthy after all
// others. The proxy refuses nothing on account of it: who leaves the host out of
// the descriptors is package onion/policy.
//
// Goroutines: Run's caller owns Run, which owns the accepting, the judging of
// health, the checks of each target, and one or more per connection; all end with
// Run. Connections beyond Options.Connections wait in the listener's backlog, not
// in memory. One circuit of tor has Options.PerCircuit of them at most, more are
// closed, and a request's body has to come at Options.BodyRate, not counting the
// time for which the target does not take it: no client takes the others' room.
//
// Non-goals: TLS, caching, compression, rewriting of bodies.
//
//	p, err := proxy.New(proxy.Options{Listen: listener, Targets: []string{"127.0.0.1:8080"}, Mode: proxy.ModeHTTP})
//	err = p.Run(ctx)
package proxy
