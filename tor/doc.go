// Package tor is skein's tor: a process of its own with a generated torrc, or
// one that somebody else runs, and everything the daemon asks of it: onion
// services, consensus and microdescriptors, posting and fetching descriptors,
// circuits to introduction points, connections through the network.
//
// Non-goals: what is in a descriptor and when to publish it. Keys of onion
// services are files that tor makes in each Service.Dir; this package never
// reads one.
//
// The own tor starts with a torrc made anew at every start, onion services
// with their ob_config in place, no secret in its arguments or environment. It
// ends with the daemon: by SIGTERM when Run's context ends, by the
// parent-death signal, by its watchdog and by its own look at its owner however
// else the daemon ends. The watchdog is a process of its own, which the daemon
// tells over a pipe that it is alive: it kills tor when the pipe ends, or when
// nothing came for Options.Silence, as from a daemon that hangs. If tor ends
// itself, or its control port fails three times in a row, it is started again
// after 1 to 60 s with jitter; what only a person can mend is StateFaulty and
// tried once a minute.
//
//	down -> bootstrap -> ready
//	  ^        |           |      process or connection lost
//	  +--------+-----------+
//	faulty                        missing, too old, refused its configuration
//
// The control port is read by bine under a guard, see docs/decisions: lines
// have at most 256 KiB, replies 64 MiB, and a reply that no command asked for
// breaks the connection. Commands run one at a time, each with a deadline of
// 10 s (60 s for consensus and microdescriptors), after which the connection is
// given up, since the late answer could not be told from the next one's. A
// caller whose context ends earlier stops waiting, and the command goes on.
//
// Events reach each Subscription in tor's order. A full one drops its oldest
// event and skein_tor_events_dropped_total counts; Connected says that events
// before it were not seen. No subscriber can hold up another or a command.
//
// Goroutines: Run's caller owns Run. A process has the goroutine that started
// it and waits for it; its thread is the one the kernel watches. Another keeps and
// feeds its watchdog, with one that waits for that. A session has
// one that reads and one that empties bine's event channel, both end with it;
// each command has one, which ends with the answer or with the session.
//
// Watch tells what a publisher needs of an own service: it looks every 5 s,
// every second after tor made a new descriptor, and at once when it is back.
//
//	t, err := tor.New(tor.Options{Dir: "/var/lib/skein/tor", Services: services})
//	go t.Run(ctx)
//	err = t.AwaitReady(ctx)
//	text, err := t.Descriptor(ctx, address)
package tor
