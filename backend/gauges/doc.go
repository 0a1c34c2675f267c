// Package gauges makes metrics of what a host knows of itself and of the others, as
// its view says it when they are asked for.
//
// Non-goals: what a package counts while it works. It registers that itself.
//
// Goroutines: none. Collect is called by whoever gathers, and reads one view.
//
//	reg.Register(gauges.New(gauges.Options{View: svc.View, Now: bootTime, Wall: time.Now, Version: "1.2.0"}))
package gauges
