package forward

import (
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/overload"
	"github.com/skein-project/skein/realtime/links"
)

// What hosts of a zone ask of one of them, which asks elsewhere for all of them: see
// package zonewatch.

// WorkerGroupsNear is WorkerGroups, as this host was told.
var WorkerGroupsNear = &Op[None, api.Workers]{
	Name: "worker_groups_near", At: Host, Lane: overload.List, Key: "workers",
	Doc: "asks the holder for the host's zone, what the scheduler knows of the workers", Answers: "what the holder said a second ago at most",
	Who: "any member",
}

// ZonesNear is Zones, as this host was told.
var ZonesNear = &Op[None, api.Zones]{
	Name: "zones_near", At: Host, Lane: overload.List, Key: "zones",
	Doc: "asks the holder for the host's zone, how the zones are", Answers: "what the holder said a second ago at most",
	Who: "any member",
}

// WatchLoadNear is WatchLoad, as this host was told.
var WatchLoadNear = &Op[LoadWatch, api.LoadLive]{
	Name: "load_watch_near", At: Host, Lane: overload.List, Key: "live",
	Doc: "asks the holder for the host's zone, what a load test counted since a position", Answers: "what the holder said a second ago at most",
	Who: "any member", Quota: Quota{Name: "load_watch_near", Burst: 64, Every: 100 * time.Millisecond}, Check: LoadWatch.Check,
}

// FollowJobNear is FollowJob, as this host is told.
var FollowJobNear = &Stream[JobName, api.Job]{
	Name: "follow_job_near", At: Host, Lane: overload.List,
	Doc: "follows a job at the holder for the host's zone", Answers: "the job, whenever it changes, until it has ended",
	Who: "any member",
}

// WatchOthers says which half-edges of the hosts elsewhere are wanted.
type WatchOthers struct {
	// Few leaves out those that are well, but of the hosts in Whole.
	Few   bool             `json:"few,omitempty"`
	Whole []cluster.NodeID `json:"whole,omitempty"`
}

// Check bounds what is asked for.
func (w WatchOthers) Check() error { return links.CheckWhole(w.Whole) }

// LinksNear sends the half-edges of the hosts that are not in the zone of this one.
var LinksNear = &Stream[WatchOthers, links.Others]{
	Name: "links_near", At: Host, Lane: overload.List,
	Doc: "says how the hosts elsewhere see the others, which it asks for its zone", Answers: "their half-edges, then what changes in them, until the asker closes it",
	Who: "any member", Check: WatchOthers.Check,
}
