package wire

// Load is how loaded a host is: its level (overload.Level), for which share of the last
// ten seconds something waited for processor, memory and disk, in percent, and the least
// delay of its work in half a second, in milliseconds.
type Load [5]uint32

// What stands where in a Load.
const (
	LoadLevel = iota
	LoadCPU
	LoadMemory
	LoadIO
	LoadDelayMS
)

// Bounds of a Load.
const (
	maxLoadLevel = 4
	maxLoadDelay = 3_600_000
)

// valid says that l is none, or could be measured.
func (l *Load) valid() bool {
	return l == nil ||
		l[LoadLevel] <= maxLoadLevel && l[LoadCPU] <= 100 && l[LoadMemory] <= 100 && l[LoadIO] <= 100 && l[LoadDelayMS] <= maxLoadDelay
}
