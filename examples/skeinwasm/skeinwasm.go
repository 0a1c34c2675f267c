package skeinwasm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
)

// MaxConfig bounds a config document, in bytes.
const MaxConfig = 1 << 20

// Chunk is the piece of a job that this process computes: the iterations
// Offset, Offset+1, ... Offset+Iterations-1.
type Chunk struct {
	Iterations uint64
	Offset     uint64
	ID         int
	Seed       uint64
}

// ChunkFromEnv reads the chunk from the environment that a worker sets.
// SKEIN_SEED may be missing, as in a run by hand; it is 0 then.
func ChunkFromEnv(getenv func(string) string) (Chunk, error) {
	var c Chunk
	for name, field := range map[string]*uint64{
		"SKEIN_ITERATIONS": &c.Iterations, "SKEIN_SEED_OFFSET": &c.Offset, "SKEIN_SEED": &c.Seed,
	} {
		text := getenv(name)
		if text == "" && name == "SKEIN_SEED" {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return c, fmt.Errorf("%s: %w", name, err)
		}
		*field = n
	}
	var err error
	if c.ID, err = strconv.Atoi(getenv("SKEIN_CHUNK_ID")); err != nil {
		return c, fmt.Errorf("SKEIN_CHUNK_ID: %w", err)
	}
	if c.Iterations == 0 {
		return c, errors.New("SKEIN_ITERATIONS is 0")
	}
	return c, nil
}

// Progress tells the worker that done iterations of the chunk are finished. It
// may be called as often as it is cheap.
func Progress(done uint64) {
	fmt.Fprintf(os.Stderr, "skein-progress %d\n", done) // nobody can be told that it fails
}

// Metric summarises samples; it is the form in which a worker reads one.
type Metric struct {
	N    uint64  `json:"n"`
	Mean float64 `json:"mean"`
	M2   float64 `json:"m2"` // sum of squared deviations from the mean
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
	// Sketch, if it is set before the first Add, gives the job quantiles.
	Sketch *Sketch `json:"sketch,omitempty"`
}

// Add counts one sample (Welford 1962).
func (m *Metric) Add(x float64) {
	if m.Sketch != nil {
		m.Sketch.add(x)
	}
	m.N++
	if m.N == 1 {
		m.Mean, m.Min, m.Max = x, x, x
		return
	}
	d := x - m.Mean
	m.Mean += d / float64(m.N)
	m.M2 += d * (x - m.Mean)
	if x < m.Min {
		m.Min = x
	}
	if x > m.Max {
		m.Max = x
	}
}

// StdErr is the standard error of the mean.
func (m Metric) StdErr() float64 {
	if m.N < 2 {
		return math.Inf(1)
	}
	return math.Sqrt(m.M2 / float64(m.N-1) / float64(m.N))
}

// Result is what a chunk computed.
type Result struct {
	Iterations uint64            `json:"iterations"`
	Metrics    map[string]Metric `json:"metrics"`
}

// Main runs a job: it hands the chunk and the config document to compute,
// writes the result and returns the exit code.
func Main(compute func(c Chunk, config []byte) (map[string]Metric, error)) int {
	if err := run(os.Getenv, os.Stdin, os.Stdout, compute); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func run(getenv func(string) string, stdin io.Reader, stdout io.Writer,
	compute func(c Chunk, config []byte) (map[string]Metric, error),
) error {
	c, err := ChunkFromEnv(getenv)
	if err != nil {
		return err
	}
	config, err := io.ReadAll(io.LimitReader(stdin, MaxConfig+1))
	if err != nil {
		return fmt.Errorf("read config: %w", err)
	}
	if len(config) > MaxConfig {
		return fmt.Errorf("config is longer than %d bytes", MaxConfig)
	}
	metrics, err := compute(c, config)
	if err != nil {
		return err
	}
	fit(metrics)
	return json.NewEncoder(stdout).Encode(Result{Iterations: c.Iterations, Metrics: metrics})
}

// DecodeConfig reads a JSON config document into v and refuses unknown fields
// and anything that follows.
func DecodeConfig(config []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(config))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("config: more follows after the document")
	}
	return nil
}

// Stream yields 64 random bits for each index: SplitMix64 (Steele, Lea, Flood
// 2014) used as a counter. Two chunks of one job share a Stream and ask for
// different indices, so their numbers never overlap.
type Stream struct{ key uint64 }

const golden = 0x9e3779b97f4a7c15

// NewStream returns the stream of a job's seed. Salt tells several streams of
// one job apart.
func NewStream(seed, salt uint64) Stream {
	return Stream{key: mix(mix(seed+golden) ^ mix(salt*golden+1))}
}

// At returns the bits of index i.
func (s Stream) At(i uint64) uint64 { return mix(s.key + i*golden) }

// Uniform returns a number in (0, 1) for index i, with 52 random bits, never
// 0 and never 1.
func (s Stream) Uniform(i uint64) float64 {
	return (float64(s.At(i)>>12) + 0.5) * (1.0 / (1 << 52))
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
