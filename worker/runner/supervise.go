package runner

// A program of the exec executor runs below a supervisor: this program, started
// as a runner like the children of WASM, whose setup names a program. The
// supervisor reads orders from its standard input and tells the end on its
// standard output; the program's own output goes to descriptors 3 and 4. When
// the daemon dies, its orders end, and the supervisor ends the program and all
// that descends from it.

// Program is one run of a program.
type Program struct {
	Path         string   `json:"path"`
	Args         []string `json:"args"`
	Env          []string `json:"env"`
	Input        string   `json:"input"`         // file for its standard input; empty: nothing
	UID          uint32   `json:"uid"`           // with Switch
	GID          uint32   `json:"gid"`           // with Switch
	Switch       bool     `json:"switch"`        // to UID and GID, with no other groups
	DataBytes    uint64   `json:"data_bytes"`    // private memory of one process; 0: no limit
	ScratchBytes int64    `json:"scratch_bytes"` // in the working directory, and of any one file
	GraceMillis  int64    `json:"grace_ms"`      // between SIGTERM and SIGKILL
}

// End is how a run ended.
type End struct {
	Failed  string `json:"failed,omitempty"`  // it was not started: why
	Exit    int    `json:"exit,omitempty"`    // code; -1: a signal
	Signal  string `json:"signal,omitempty"`  // that ended it
	Stopped bool   `json:"stopped,omitempty"` // on order
	Scratch bool   `json:"scratch,omitempty"` // for writing more than ScratchBytes
	Left    int    `json:"left,omitempty"`    // processes that it left behind and that were killed
	Alive   int    `json:"alive,omitempty"`   // of them, that could not be killed
}

// OrderStop is a byte that, on its standard input, lets a supervisor end its
// program; the end of the input lets it do so at once.
const OrderStop = 't'

// OrderSave is a byte that lets a supervisor tell its program, by SIGUSR1, that its end is
// near. It is given only to those that said that they know what that means.
const OrderSave = 'u'
