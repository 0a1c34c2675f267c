package scheduler

import "github.com/skein-project/skein/scheduler/plan"

// lane says how urgent a request is. Stops and handing over have a queue of
// their own, so that no flood of submissions keeps them out.
func (r request) lane() plan.Lane {
	if r.stop != nil || r.quiesce {
		return plan.LaneControl
	}
	return plan.LaneDispatch
}

// lane says how urgent a word of a worker is. Only what it tells of itself may
// be shed: the next word replaces it.
func (e linkEvent) lane() plan.Lane {
	switch {
	case e.result != nil:
		return plan.LaneData
	case e.status != nil, e.pong > 0:
		return plan.LaneTelemetry
	}
	return plan.LaneControl // the stream itself, and what became of cancels
}
