package skeinwasm

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"strings"
	"testing"
)

func env(m map[string]string) func(string) string { return func(k string) string { return m[k] } }

var chunkEnv = map[string]string{
	"SKEIN_ITERATIONS": "10", "SKEIN_SEED_OFFSET": "30", "SKEIN_CHUNK_ID": "3", "SKEIN_SEED": "42",
}

func TestChunkFromEnv(t *testing.T) {
	c, err := ChunkFromEnv(env(chunkEnv))
	if err != nil || c != (Chunk{Iterations: 10, Offset: 30, ID: 3, Seed: 42}) {
		t.Fatalf("%+v, %v", c, err)
	}
	for name, bad := range map[string]string{
		"SKEIN_ITERATIONS": "0", "SKEIN_SEED_OFFSET": "-1", "SKEIN_CHUNK_ID": "", "SKEIN_SEED": "x",
	} {
		m := maps.Clone(chunkEnv)
		m[name] = bad
		if _, err := ChunkFromEnv(env(m)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%q: %v", name, bad, err)
		}
	}
}

func TestRun(t *testing.T) {
	var out bytes.Buffer
	err := run(env(chunkEnv), strings.NewReader("config"), &out, func(c Chunk, config []byte) (map[string]Metric, error) {
		var m Metric
		m.Add(float64(len(config)))
		return map[string]Metric{"x": m}, nil
	})
	var r Result
	if err != nil || json.Unmarshal(out.Bytes(), &r) != nil || r.Iterations != 10 || r.Metrics["x"].Mean != 6 {
		t.Fatalf("%s, %v", out.String(), err)
	}
	no := errors.New("no")
	if err := run(env(chunkEnv), strings.NewReader(""), &out, func(Chunk, []byte) (map[string]Metric, error) { return nil, no }); !errors.Is(err, no) {
		t.Errorf("error of the job: %v", err)
	}
	if err := run(env(chunkEnv), strings.NewReader(strings.Repeat("x", MaxConfig+1)), &out, nil); err == nil {
		t.Error("a config without limit was read")
	}
}

func TestDecodeConfig(t *testing.T) {
	var v struct {
		A int `json:"a"`
	}
	if err := DecodeConfig([]byte(`{"a":1}`), &v); err != nil || v.A != 1 {
		t.Fatal(v, err)
	}
	for _, bad := range []string{"", "{}{}", `{"b":1}`, `{"a":"x"}`} {
		if err := DecodeConfig([]byte(bad), &v); err == nil {
			t.Errorf("%q: accepted", bad)
		}
	}
}

func TestMetricAgainstTwoPasses(t *testing.T) {
	s := NewStream(1, 0)
	var m Metric
	const n = 10_000
	var sum float64
	for i := range uint64(n) {
		m.Add(s.Uniform(i))
		sum += s.Uniform(i)
	}
	mean, m2 := sum/n, 0.0
	for i := range uint64(n) {
		d := s.Uniform(i) - mean
		m2 += d * d
	}
	if math.Abs(m.Mean-mean) > 1e-12 || math.Abs(m.M2-m2) > 1e-9 || m.N != n {
		t.Fatalf("%+v, want mean %v and m2 %v", m, mean, m2)
	}
	// A uniform number has mean 1/2 and variance 1/12.
	if math.Abs(mean-0.5) > 4*m.StdErr() || math.Abs(m2/n-1.0/12) > 0.002 {
		t.Errorf("mean %v, variance %v", mean, m2/n)
	}
}

func TestStreams(t *testing.T) {
	if NewStream(1, 0) == NewStream(1, 1) || NewStream(1, 0) == NewStream(2, 0) || NewStream(0, 1) == NewStream(1, 0) {
		t.Error("two streams have one key")
	}
	for _, bits := range []uint64{0, math.MaxUint64} {
		if u := (float64(bits>>12) + 0.5) * (1.0 / (1 << 52)); u <= 0 || u >= 1 {
			t.Errorf("bits %x give %v", bits, u)
		}
	}
	// Each bit is set half of the time, and differs from its predecessor half
	// of the time.
	s := NewStream(7, 3)
	var ones, flips [64]int
	const n = 20_000
	for i := range uint64(n) {
		v, w := s.At(i), s.At(i)^s.At(i+1)
		for b := range 64 {
			ones[b] += int(v >> b & 1)
			flips[b] += int(w >> b & 1)
		}
	}
	for b := range 64 {
		for _, c := range []int{ones[b], flips[b]} {
			if math.Abs(float64(c)-n/2) > 5*math.Sqrt(n)/2 {
				t.Errorf("bit %d: %d of %d", b, c, n)
			}
		}
	}
}
