package load

import (
	"maps"
	"slices"
	"time"
)

// Bounds of a scenario.
const (
	MaxFile      = 1 << 20 // bytes
	MaxSteps     = 64
	MaxChecks    = 256
	MaxTraffics  = 32
	MaxStages    = 256
	MaxThreshold = 64
	MaxUsers     = 100_000
	MaxRate      = 1_000_000 // arrivals a second
	MaxTime      = 24 * time.Hour
	MaxVars      = 256
	MaxHeaders   = 64
	MaxRedirects = 20
	MaxMessages  = 10_000 // that a WebSocket is waited for
	MaxSlices    = 128

	maxName = 64
	maxText = 1 << 20
)

// Hook is a function of a WASM module that changes a request before it is sent.
type Hook struct {
	File string // empty: none
	Call string
}

// Methods of steps that are not those of HTTP.
const (
	WebSocket = "WEBSOCKET" // opens one
	GRPC      = "GRPC"      // calls a method
)

// DefaultTimeout bounds a request of a step that says nothing of it.
const DefaultTimeout = 30 * time.Second

// Scenario is a file as it was written: checked for itself, its templates still
// text. Compile makes a Plan of it.
type Scenario struct {
	Name       string
	Thresholds []Threshold
	Vars       map[string]string
	Data       []Data
	HTTP       HTTP
	// Descriptors is the file that says what the methods are that steps call: a FileDescriptorSet.
	Descriptors string
	Traffics    []Traffic
	Warmup      time.Duration
	Grace       time.Duration
	// Of a run on hosts: how many take part (0: as few as carry it), and what becomes of it
	// when one is lost (empty: it is not said).
	Slices int
	OnLoss string

	flows map[string][]rawStep
	f     *faults
}

// Threshold is a condition on the result, as it was written.
type Threshold struct {
	When   string
	Window time.Duration // 0: the whole run
	Hold   time.Duration // it must be breached that long
	Delay  time.Duration // it is not judged before
	Abort  bool          // its breach ends the run
	at     place
}

// Data are rows that iterations take in turn.
type Data struct {
	Name, File string
	Pick       Pick
	at         place
}

// Pick says which row an iteration gets.
type Pick string

// Picks.
const (
	PickCycle  Pick = "cycle"  // one after the other, from the first again
	PickRandom Pick = "random" // any
	PickUnique Pick = "unique" // each once; then its traffic ends
	PickUser   Pick = "user"   // each user has one
)

// HTTP is what holds for all requests.
type HTTP struct {
	Version     string // auto, 1.1, 2, h2c, 3
	DNS         string // ttl, fixed, round-robin
	Connections string // user, shared, request
	Cookies     string // user, iteration, off
	Timeout     time.Duration
	Headers     map[string]string
	TLS         TLSOptions
}

// TLSOptions are files, by their names, and what is asked of the target.
type TLSOptions struct {
	CA, Cert, Key, ServerName, Min string
	Insecure                       bool
}

// Traffic drives a flow: with users that each begin again when they are done
// (closed), or by arrivals at a rate (open).
type Traffic struct {
	Name, Flow string
	Users      []Stage // closed
	Rate       []Stage // open, arrivals a second
	Open       bool
	Poisson    bool // arrivals at random, else evenly
	MaxUsers   int
	Start      time.Duration // after the run's
	Pace       time.Duration // between the starts of a closed user's iterations
	ThinkMin   time.Duration // after an iteration
	ThinkMax   time.Duration
	at         place
}

// Stage is a part of a plan: from the level before to To within Over.
type Stage struct {
	To   float64
	Over time.Duration
}

// Length is how long a traffic lasts, with what it waits before.
func (t Traffic) Length() time.Duration {
	d := t.Start
	for _, s := range append(t.Users, t.Rate...) {
		d += s.Over
	}
	return d
}

// rawStep is a step as it was written.
type rawStep struct {
	at       place
	name     string
	checks   []string
	extract  []rawExtract
	after    []string
	hasAfter bool
	think    [2]time.Duration
	rawRequest
}

type rawRequest struct {
	method, url   string
	headers       map[string]string
	body          string
	json          any
	hasJSON       bool
	form          map[string]string
	bearer        string
	basicUser     string
	basicPassword string
	oauth         oauth
	redirects     int
	messages      int
	hook          Hook
	timeout       time.Duration
}

type rawExtract struct {
	at                        place
	name, json, header, regex string
}

// FromURL is a scenario of one request: what a run of a bare URL is. The rate is
// in arrivals a second; 0: that many users, each as fast as it can.
func FromURL(url string, rate float64, users int, length time.Duration) (*Scenario, error) {
	s := newScenario(nil)
	s.Name, s.Grace = "url", defaultGrace
	s.HTTP = HTTP{Version: "auto", DNS: "ttl", Connections: "user", Cookies: "user", Timeout: DefaultTimeout}
	s.flows["url"] = []rawStep{{name: "get", rawRequest: rawRequest{method: "GET", url: url}}}
	t := Traffic{Name: "url", Flow: "url"}
	if rate > 0 {
		t.Open, t.Rate, t.MaxUsers = true, []Stage{{To: rate}, {To: rate, Over: length}}, users
	} else {
		t.Users = []Stage{{To: float64(users)}, {To: float64(users), Over: length}}
	}
	s.Traffics = []Traffic{t}
	s.checkTraffic(&s.Traffics[0])
	return s, s.f.err()
}

// Files lists the files that steps need: modules, and descriptors of gRPC.
func (s *Scenario) Files() []string {
	var out []string
	if s.Descriptors != "" {
		out = append(out, s.Descriptors)
	}
	for _, flow := range slices.Sorted(maps.Keys(s.flows)) {
		for _, st := range s.flows[flow] {
			if f := st.hook.File; f != "" && !slices.Contains(out, f) {
				out = append(out, f)
			}
		}
	}
	return out
}
