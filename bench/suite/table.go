package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

// Result is one row of the table: a figure of skein beside that of a peer,
// measured in the same run.
type Result struct {
	Name string  `json:"name"`
	Unit string  `json:"unit"`
	Ours float64 `json:"ours"`
	Peer float64 `json:"peer"`
	// Ratio is ours/peer, null if the peer's figure is 0.
	Ratio  *float64 `json:"ratio"`
	Target string   `json:"target"`
	OK     bool     `json:"ok"`
}

// Target is what a row should show; the zero value is none.
type Target struct {
	of    string // "ratio" or "ours"
	op    string // "<=" or ">="
	limit float64
}

// Want is the target that the ratio or the figure of ours ("ratio", "ours") is
// at most or at least ("<=", ">=") limit.
func Want(of, op string, limit float64) Target { return Target{of, op, limit} }

func (t Target) String() string {
	if t.of == "" {
		return "none"
	}
	return t.of + " " + t.op + " " + number(t.limit)
}

func (t Target) holds(r Result) bool {
	v := r.Ours
	switch t.of {
	case "":
		return true
	case "ratio":
		if r.Ratio == nil {
			return false
		}
		v = *r.Ratio
	}
	if t.op == "<=" {
		return v <= t.limit
	}
	return v >= t.limit
}

// Series is a row before it is judged: the samples of both sides.
type Series struct {
	Name, Unit string
	With       string // the peer and how it was set
	Target     Target
	Digest     func([]float64) float64 // median or p99
	Ours, Peer []float64
}

func (s Series) result() Result {
	r := Result{Name: s.Name, Unit: s.Unit, Ours: round(s.Digest(s.Ours)), Peer: round(s.Digest(s.Peer)), Target: s.Target.String()}
	if r.Peer != 0 {
		q := round(r.Ours / r.Peer)
		r.Ratio = &q
	}
	r.OK = s.Target.holds(r)
	return r
}

// Detail is what stands behind a row.
type Detail struct {
	Name string `json:"name"`
	// Date is when the run began that measured it, LoadBefore the machine's load then.
	Date       time.Time `json:"date"`
	LoadBefore string    `json:"load_before"`

	Peer   string `json:"peer"`
	Rounds int    `json:"rounds"`
	// OursSpread and PeerSpread are least and greatest sample.
	OursSpread [2]float64 `json:"ours_spread"`
	PeerSpread [2]float64 `json:"peer_spread"`
	Ours       []float64  `json:"ours_samples"`
	Theirs     []float64  `json:"peer_samples"`
}

func (s Series) detail(h Header) Detail {
	return Detail{
		Name: s.Name, Date: h.Date, LoadBefore: h.LoadBefore, Peer: s.With, Rounds: len(s.Ours), OursSpread: spread(s.Ours), PeerSpread: spread(s.Peer),
		Ours: rounded(s.Ours), Theirs: rounded(s.Peer),
	}
}

func spread(v []float64) [2]float64 {
	if len(v) == 0 {
		return [2]float64{}
	}
	return [2]float64{round(slices.Min(v)), round(slices.Max(v))}
}

// Skip is a row that this machine cannot measure, and why.
type Skip struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Report is the content of the file of results.
type Report struct {
	Header  Header   `json:"header"`
	Results []Result `json:"results"`
	Details []Detail `json:"details"`
	Skipped []Skip   `json:"skipped"`
}

// NewReport judges the rows.
func NewReport(h Header, all []Series, skipped []Skip) Report {
	r := Report{Header: h, Results: []Result{}, Details: []Detail{}, Skipped: append([]Skip{}, skipped...)}
	for _, s := range all {
		r.Results = append(r.Results, s.result())
		r.Details = append(r.Details, s.detail(h))
	}
	return r
}

// Print writes the table for people.
func (r Report) Print(w io.Writer) error {
	h := r.Header
	fmt.Fprintf(w, "%s, %d CPUs (%s), load %s before and %s after, fsync %.2f ms, %s\n\n",
		h.Date.Format(time.DateTime), h.CPUs, h.CPU, h.LoadBefore, h.LoadAfter, h.FsyncMS, h.Go)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tOURS\tPEER\tUNIT\tRATIO\tTARGET\tOK\tROUNDS\tOURS SPREAD\tPEER SPREAD")
	for i, row := range r.Results {
		ratio, ok := "-", "no"
		if row.Ratio != nil {
			ratio = number(*row.Ratio)
		}
		if row.OK {
			ok = "yes"
		}
		d := r.Details[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", row.Name, number(row.Ours), number(row.Peer), row.Unit,
			ratio, row.Target, ok, d.Rounds, span(d.OursSpread), span(d.PeerSpread))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(w, "skipped: %s: %s\n", s.Name, s.Reason)
	}
	return nil
}

// Keep adds what the file of results has of rows that this run did not measure; without
// such a file it does nothing.
func (r *Report) Keep(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var old Report
	if err == nil {
		err = json.Unmarshal(text, &old)
	}
	if err != nil {
		return fmt.Errorf("results of earlier runs in %s: %w", path, err)
	}
	is := map[string]bool{}
	for _, row := range r.Results {
		is[row.Name] = true
	}
	for _, row := range old.Results {
		if !is[row.Name] {
			r.Results = append(r.Results, row)
		}
	}
	for _, d := range old.Details {
		if is[d.Name] {
			continue
		}
		if d.Date.IsZero() { // the file is as it was when each run wrote all
			d.Date, d.LoadBefore = old.Header.Date, old.Header.LoadBefore
		}
		r.Details = append(r.Details, d)
	}
	return nil
}

// Write replaces the file of results.
func (r Report) Write(path string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	tmp := path + ".new"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}

func span(s [2]float64) string { return number(s[0]) + "-" + number(s[1]) }

// round keeps four significant digits.
func round(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	exp := math.Floor(math.Log10(math.Abs(v)))
	if exp > 3 {
		unit := math.Pow(10, exp-3) // whole, so that the product is
		return math.Round(v/unit) * unit
	}
	scale := math.Pow(10, 3-exp)
	return math.Round(v*scale) / scale
}

func rounded(v []float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = round(v[i])
	}
	return out
}

func number(v float64) string { return strconv.FormatFloat(round(v), 'f', -1, 64) }
