package guard

import (
	"fmt"
	"time"

	"github.com/skein-project/skein/internal/bucket"
)

// Limit is how often one thing may be asked.
type Limit int

// Limits. The first ones are of an address (of IPv6, a network of 64 bits), the others of
// a worker or of an access token.
const (
	Address Limit = iota
	Register
	Claims
	Proof
	Token
	Guess
	Owner
	Attach
	Beat
	Complete
	Call
)

var limits = [...]struct {
	name string
	bucket.Rate
}{
	Address:  {"address", bucket.Rate{PerSecond: 20, Burst: 200}},
	Register: {"register", bucket.Rate{PerSecond: 5.0 / 3600, Burst: 5}}, // without an access token
	Claims:   {"claim", bucket.Rate{PerSecond: 10.0 / 60, Burst: 10}},
	Proof:    {"proof", bucket.Rate{PerSecond: 20.0 / 60, Burst: 20}}, // that was refused
	Token:    {"token", bucket.Rate{PerSecond: 6.0 / 60, Burst: 6}},
	Guess:    {"guess", bucket.Rate{PerSecond: 5.0 / 3600, Burst: 5}}, // of a claim code, that was wrong
	Owner:    {"owner", bucket.Rate{PerSecond: 10, Burst: 100}},
	Attach:   {"attach", bucket.Rate{PerSecond: 1, Burst: 20}}, // the holder hears all of the worker each time
	Beat:     {"beat", bucket.Rate{PerSecond: 1, Burst: 10}},
	Complete: {"complete", bucket.Rate{PerSecond: 100, Burst: 200}}, // requests, of up to 64 results
	Call:     {"call", bucket.Rate{PerSecond: 20, Burst: 40}},       // all others of a worker
}

// Limits lists all.
func Limits() []Limit {
	out := make([]Limit, len(limits))
	for i := range out {
		out[i] = Limit(i)
	}
	return out
}

// String names it, as metrics do.
func (l Limit) String() string { return limits[l].name }

// Rate is how often that is.
func (l Limit) Rate() bucket.Rate { return limits[l].Rate }

// Every is how long it takes until one more may be asked.
func (l Limit) Every() time.Duration {
	return time.Duration(float64(time.Second) / limits[l].PerSecond)
}

// Ask is what a request counts for.
type Ask struct {
	Limit
	Who string
	// Look counts nothing: it is too many where one more would be.
	Look bool
}

// LateError says that an Ask is one too many, and how long to wait; what stood before it has
// been counted.
type LateError struct {
	Limit
	Wait time.Duration
}

// Error implements error.
func (e *LateError) Error() string { return fmt.Sprintf("too many requests: limit %s", e.Limit) }
