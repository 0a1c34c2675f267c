package link

// Lane is how urgent something is. What is in a better lane goes first, and
// what is in a worse one is shed first; control and results are never shed.
type Lane uint8

// Lanes, the most urgent first.
const (
	Control   Lane = iota // stops, health, ends of streams: never shed
	Dispatch              // submissions and what gets work to workers: refused with a time to try again
	Data                  // results: never dropped, their senders wait
	Telemetry             // status of workers: the latest replaces the one before
)

// String implements fmt.Stringer.
func (l Lane) String() string {
	return [...]string{"control", "dispatch", "data", "telemetry"}[l]
}

// Lane says how urgent it is what a link tells. Only the status of workers may be
// shed: the next one replaces it.
func (e Event) Lane() Lane {
	switch {
	case e.Result != nil:
		return Data
	case e.Status != nil, e.Pong > 0:
		return Telemetry
	}
	return Control // the stream itself, who is there, and what became of cancels
}
