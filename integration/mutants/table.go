package main

import "slices"

// mutants are the breakages, in the order of the protocol.
var mutants = slices.Concat(
	timeMutants, epochMutants,
	joinMutants, togetherMutants, incarnationMutants, abandonMutants,
	waitMutants, purgeMutants, allMutants,
	holdMutants, passMutants, doubtMutants, riskMutants, txnMutants, attachMutants,
	leaveMutants, cleanupMutants, revokeMutants, breakMutants,
	familyMutants, electionMutants,
	connMutants,
	sweepMutants,
)
