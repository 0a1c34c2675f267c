package forward

import (
	"errors"
	"fmt"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/load/gang"
	"github.com/skein-project/skein/overload"
)

// onlyHolder lets the holder ask, whoever believes to be it.
const onlyHolder = "the holder; the host looks at its own list before it does anything"

// LoadSubmission asks for a load test that runs on hosts.
type LoadSubmission struct {
	Key    string           `json:"key"`
	Name   string           `json:"name,omitempty"`
	Bundle cluster.Hash     `json:"bundle"`
	Hosts  int              `json:"hosts,omitempty"`
	On     []cluster.NodeID `json:"on,omitempty"`
	Loss   string           `json:"loss,omitempty"`
}

// LoadSubmitted says under which name there is a load test.
type LoadSubmitted struct {
	Run     event.LoadID `json:"run"`
	Created bool         `json:"created"`
}

// SubmitLoad gives the holder a load test.
var SubmitLoad = &Op[LoadSubmission, LoadSubmitted]{
	Name: "load", At: Holder, Lane: overload.Submit,
	Doc: "has a load test run on hosts", Answers: "its id, once it is logged",
	Who: "any member", Owner: true,
}

// LoadStop asks for the end of a load test.
type LoadStop struct {
	Run    event.LoadID `json:"run"`
	Reason string       `json:"reason,omitempty"`
}

// StopLoad ends a load test; what it counted is its result.
var StopLoad = &Op[LoadStop, None]{
	Name: "load_stop", At: Holder, Lane: overload.Control,
	Doc: "ends a load test", Answers: "nothing, once it is logged",
	Who: "any member",
}

// LoadWatch asks how a load test gets on: what was counted since After.
type LoadWatch struct {
	Run   event.LoadID `json:"run"`
	After string       `json:"after,omitempty"` // a cursor
	Wait  int          `json:"wait_ms,omitempty"`
}

// maxCursor bounds a cursor, in bytes.
const maxCursor = 16 << 10

// WatchLoad tells how a load test gets on.
var WatchLoad = &Op[LoadWatch, api.LoadLive]{
	Name: "load_watch", At: Holder, Lane: overload.List, Key: "live",
	Doc: "tells what a load test counted since a position", Answers: "the counts, and the position behind them",
	Who: "any member", Quota: Quota{Name: "load_watch", Burst: 64, Every: 100 * time.Millisecond}, Check: LoadWatch.Check,
}

// Check bounds what is asked for.
func (w LoadWatch) Check() error {
	if len(w.After) > maxCursor {
		return fmt.Errorf("a cursor of %d bytes", len(w.After))
	}
	return gang.Ask{Run: w.Run, Wait: w.Wait}.Check()
}

// LoadOffer asks a host whether it may take part in a load test.
var LoadOffer = &Op[gang.Wanted, gang.Offer]{
	Name: "load_offer", At: Host, Lane: overload.Assign, Key: "offer",
	Doc: "says whether the host may take part in a load test", Answers: "its limits, or why it may not",
	Who: "any member", Check: gang.Wanted.Check,
}

// LoadPrepare has a host make ready for its part.
var LoadPrepare = &Op[gang.Prepare, gang.Prepared]{
	Name: "load_prepare", At: Host, Lane: overload.Assign, Key: "prepared",
	Doc: "has the host make ready for its part of a load test", Answers: "how far it is",
	Who: onlyHolder, Check: gang.Prepare.Check,
}

// LoadClock reads the clock by which a host begins.
var LoadClock = &Op[gang.Named, gang.Clock]{
	Name: "load_clock", At: Host, Lane: overload.Control, Key: "clock",
	Doc: "reads the clock by which the host begins its part of a load test", Answers: "nanoseconds",
	Who: "any member", Check: gang.Named.Check,
}

// LoadStart tells a host when to begin.
var LoadStart = &Op[gang.Start, None]{
	Name: "load_start", At: Host, Lane: overload.Control,
	Doc: "tells the host when to begin its part of a load test", Answers: "nothing",
	Who: onlyHolder, Check: gang.Start.Check,
}

// LoadEnd has a host end its part.
var LoadEnd = &Op[gang.End, None]{
	Name: "load_end", At: Host, Lane: overload.Control,
	Doc: "has the host end its part of a load test", Answers: "nothing",
	Who: onlyHolder, Check: gang.End.Check,
}

// LoadRedeal has a host do what others that are lost do not.
var LoadRedeal = &Op[gang.Redeal, None]{
	Name: "load_redeal", At: Host, Lane: overload.Control,
	Doc: "has the host take over a share of a load test whose host is lost", Answers: "nothing",
	Who: onlyHolder, Check: gang.Redeal.Check,
}

// LoadCounted gets what a host has counted.
var LoadCounted = &Op[gang.Ask, gang.Counted]{
	Name: "load_counted", At: Host, Lane: overload.Control, Key: "counted",
	Doc: "tells what the host has counted of a load test", Answers: "frames that follow each other",
	Who: onlyHolder, Check: gang.Ask.Check,
}

// CheckLoadSubmission reports what is wrong with a submission by itself.
func CheckLoadSubmission(s LoadSubmission) error {
	if s.Key == "" || len(s.Key) > 128 {
		return errors.New("key: want 1-128 bytes")
	}
	return nil
}
