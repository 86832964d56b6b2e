package znode

// counterBits is the length of a zxid's counter: ZooKeeper splits its 64 bits into 32 for the epoch
// and 32 for the counter. These functions are the only place that knows it.
const counterBits = 32

// Epoch returns the epoch of a transaction. Each leader has its own epoch, and epochs rise.
func Epoch(zxid int64) int64 { return zxid >> counterBits }

// Counter returns the number of a transaction within its epoch; the first is 1.
func Counter(zxid int64) int64 { return zxid & (1<<counterBits - 1) }

// EpochStart returns the zxid right before the first transaction of an epoch.
func EpochStart(epoch int64) int64 { return epoch << counterBits }

// Elected reports whether another leader has numbered the transaction zxid than the last one before it in a
// log. A server that runs alone numbers on into the next epoch.
func Elected(before, zxid int64) bool { return Epoch(zxid) != Epoch(before) && zxid != before+1 }

// TxnsLeft returns how many transactions the leader of that transaction can still number. Then its term
// ends, and the servers elect a leader.
func TxnsLeft(zxid int64) int64 { return 1<<counterBits - 1 - Counter(zxid) }
