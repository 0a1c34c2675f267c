package stream

import "github.com/skein-project/skein/overload"

// Lane says how urgent a frame is: the one of the only field that is set, see Validate.
// Stops and results are never shed, their senders wait; of what a worker does the latest is
// told, and what came before it may be lost. A test fails on a field that has no lane.
func (f Frame) Lane() overload.Lane {
	switch {
	case f.Cancel != nil, f.Stopped != nil, f.Result != nil, f.Accepted != nil, f.Query != nil, f.Assigned != nil:
		return overload.Vital
	case f.Hello != nil, f.Welcome != nil, f.Refused != nil, f.Join != nil, f.Part != nil, f.Drop != nil:
		return overload.Control
	case f.Assign != nil:
		return overload.Assign
	case f.Status != nil, f.Ping != nil, f.Pong != nil:
		return overload.Telemetry
	}
	return overload.Unset
}
