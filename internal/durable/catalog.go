package durable

// again says what is left to do where a host cannot be who it was.
const again = "without a backup give this host up: `skein remove` it on another host, empty the state directory, " +
	"and join with a new token under another name"

// Files of a state directory that are written with a checksum. The package that
// writes one decides what its damage means; what people are told stands here, and
// in docs/operations.md.
var (
	Identity = &File{
		Name: "identity.json", What: "the identity of this host: its name and keys, and the secret of the cluster", Secret: true,
		Back: "only a backup of this host has it",
		Next: "put identity.json back from a backup of this host; " + again,
	}
	Records = &File{
		Name: "records.json", What: "the membership records",
		Back: "every other host has the same file",
		Next: "copy records.json from the state directory of another host of this cluster, keep owner and mode, and start again",
	}
	RootKey = &File{
		Name: "root.key", What: "the root key of the cluster", Secret: true,
		Back: "only an export has it, and only making or removing sponsors needs it",
		Next: "put it back with `skein root import FILE`; without an export remove root.key: the cluster goes on with the sponsors that it has",
	}
	Invites = &File{
		Name: "invites.json", What: "the invites of this host", Secret: true,
		Back: "it begins anew by itself, and tokens that were made here before are void: make others with `skein token create`",
	}
	Boot = &File{
		Name: "boot", What: "the number of this host's starts",
		Back: "it comes back by itself, from the time of day",
	}
	Epoch = &File{
		Name: "epoch", What: "the number of this host's announcements",
		Back: "it comes back by itself, from the time of day",
	}
	PendingKeys = &File{
		Name: "pending.json", What: "the keys of a join that is not finished", Secret: true,
		Back: "nobody else has them",
		Next: "remove pending.json and join again; if the sponsor then refuses the name, `skein remove` that name there, and join under another",
	}
	NextKey = &File{
		Name: "wg-next.json", What: "the next WireGuard key, of a change that is not finished", Secret: true,
		Back: "it is dropped by itself, and the present key stays: `skein mesh rotate` begins again",
	}
	Votes = &File{ // with a checksum of its own: it is written in place
		Name: "vote.json", What: "the votes that this host cast",
		Back: "this host abstains, and the others readmit it by themselves",
	}
	Endpoints = &File{
		Name: "endpoints.json", What: "where other hosts were last reached",
		Back: "it is learnt again by itself", Limit: 1 << 20,
	}
	Seen = &File{
		Name: "seen.json", What: "when the other voters were last heard",
		Back: "nothing depends on it: `skein lease recover` has less to tell", Limit: 16 << 10,
	}
	Forced = &File{
		Name: "forced.json", What: "the note that `skein lease recover` was used here",
		Back: "it is logged by itself, without who did it and who was given up",
	}
	Repairs = &File{
		Name: "repair.json", What: "the list of what a repair of the event log still fetches",
		Back: "`skein log repair` finds it again",
		Next: "run `skein log repair`, then start again",
	}
	Generation = &File{
		Name: "generation", What: "the mark of this host's present onion key",
		Back: "by itself: this host gets another onion key under the same address, as after `skein onion rotate`",
	}
)

// Sealed are the files of a state directory that have a checksum of this package.
func Sealed() []*File {
	return []*File{Identity, Records, RootKey, Invites, Boot, Epoch, PendingKeys, NextKey, Endpoints, Seen, Forced}
}
