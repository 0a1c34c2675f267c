package scheduler

// lane is how urgent something is. What is in a better lane goes first, and
// what is in a worse one is shed first; control and results are never shed.
type lane uint8

// Lanes, the most urgent first.
const (
	laneControl   lane = iota // stops, health, ends of streams: never shed
	laneDispatch              // submissions and what gets work to workers: refused with a time to try again
	laneData                  // results: never dropped, their senders wait
	laneTelemetry             // status of workers: the latest replaces the one before
)

// String implements fmt.Stringer.
func (l lane) String() string {
	return [...]string{"control", "dispatch", "data", "telemetry"}[l]
}

// lane says how urgent a request is. Stops and handing over have a queue of
// their own, so that no flood of submissions keeps them out.
func (r request) lane() lane {
	if r.stop != nil || r.quiesce {
		return laneControl
	}
	return laneDispatch
}

// lane says how urgent a frame of a worker is. Only its status may be shed: the
// next one replaces it.
func (e linkEvent) lane() lane {
	switch {
	case e.result != nil:
		return laneData
	case e.status != nil, e.pong > 0:
		return laneTelemetry
	}
	return laneControl // the stream itself, and what became of cancels
}
