package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// wireMetric is a metric as a guest writes it: every field must be there.
type wireMetric struct {
	N    *uint64  `json:"n"`
	Mean *float64 `json:"mean"`
	M2   *float64 `json:"m2"`
	Min  *float64 `json:"min"`
	Max  *float64 `json:"max"`

	Sketch *Sketch `json:"sketch"` // may be missing
}

// DecodeResult reads what a guest wrote to standard output, which is to be validated. It
// accepts exactly one JSON object {iterations, metrics: {name: {n, mean, m2, min, max,
// sketch}}}, at most MaxResultBytes long, no field twice, none unknown, none missing but
// the sketch.
func DecodeResult(out []byte) (ChunkResult, error) {
	var r ChunkResult
	if len(out) > MaxResultBytes {
		return r, ErrTooMuchOutput
	}
	if len(bytes.TrimSpace(out)) == 0 {
		return r, errors.New("wrote no result to standard output")
	}
	d := resultDecoder{Decoder: json.NewDecoder(bytes.NewReader(out))}
	d.DisallowUnknownFields()
	r, err := d.result()
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			err = nil
		} else {
			err = errors.New("more follows after the result")
		}
	}
	if err != nil {
		return ChunkResult{}, fmt.Errorf("standard output is not a result: %w", explain(err, out))
	}
	return r, nil
}

// ErrTooMuchOutput says that a guest wrote more than a result may be.
var ErrTooMuchOutput = fmt.Errorf("wrote more than %d bytes to standard output", MaxResultBytes)

type resultDecoder struct{ *json.Decoder }

func (d resultDecoder) result() (r ChunkResult, err error) {
	seen := map[string]bool{}
	if err := d.open("result"); err != nil {
		return r, err
	}
	for d.More() {
		name, err := d.name(seen)
		if err != nil {
			return r, err
		}
		switch name {
		case "iterations":
			err = d.Decode(&r.Iterations)
		case "metrics":
			r.Metrics, err = d.metrics()
		default:
			err = fmt.Errorf("unknown field %q", Clip(OneLine(name), 64))
		}
		if err != nil {
			return r, err
		}
	}
	if _, err := d.Token(); err != nil {
		return r, err
	}
	for _, name := range []string{"iterations", "metrics"} {
		if !seen[name] {
			return r, fmt.Errorf("field %q is missing", name)
		}
	}
	return r, nil
}

func (d resultDecoder) metrics() (map[string]Metric, error) {
	seen := map[string]bool{}
	out := map[string]Metric{}
	if err := d.open("metrics"); err != nil {
		return nil, err
	}
	for d.More() {
		name, err := d.name(seen)
		if err != nil {
			return nil, err
		}
		if len(out) == MaxMetrics {
			return nil, fmt.Errorf("more than %d metrics", MaxMetrics)
		}
		var m wireMetric
		if err := d.Decode(&m); err != nil {
			return nil, fmt.Errorf("metric %q: %w", Clip(OneLine(name), 64), err)
		}
		if m.N == nil || m.Mean == nil || m.M2 == nil || m.Min == nil || m.Max == nil {
			return nil, fmt.Errorf("metric %q: want n, mean, m2, min and max", Clip(OneLine(name), 64))
		}
		out[name] = Metric{N: *m.N, Mean: *m.Mean, M2: *m.M2, Min: *m.Min, Max: *m.Max, Sketch: m.Sketch}
	}
	_, err := d.Token()
	return out, err
}

// open consumes the start of an object.
func (d resultDecoder) open(what string) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	if t != json.Delim('{') {
		return fmt.Errorf("%s is not an object", what)
	}
	return nil
}

// name reads a field's name and remembers it.
func (d resultDecoder) name(seen map[string]bool) (string, error) {
	t, err := d.Token()
	if err != nil {
		return "", err
	}
	name, ok := t.(string)
	if !ok {
		return "", errors.New("a name is not a text")
	}
	if seen[name] {
		return "", fmt.Errorf("%q stands twice", Clip(OneLine(name), 64))
	}
	seen[name] = true
	return name, nil
}

// explain says what commonly goes wrong in the words of who wrote the guest.
func explain(err error, out []byte) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		odd := strings.TrimPrefix(syntax.Error(), "invalid character ")
		if bytes.HasPrefix(bytes.TrimSpace(out), []byte("{")) && (strings.HasPrefix(odd, "'N'") || strings.HasPrefix(odd, "'I'")) {
			return errors.New("a number is NaN or infinite")
		}
		return fmt.Errorf("%w; it begins %q", err, Clip(OneLine(string(out[:min(len(out), 64)])), 64))
	case errors.As(err, &kind) && strings.HasPrefix(kind.Value, "number ") && kind.Type.Kind().String() == "float64":
		return errors.New("a number is too large for a float64")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it is cut off")
	}
	return err
}
