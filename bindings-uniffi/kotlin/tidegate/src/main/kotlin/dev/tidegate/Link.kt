package dev.tidegate

/** State of the device's link to its networks: see [Engine.setLink]. */
public enum class Link {
    /** Nothing stands against retries and hedges. */
    OK,

    /** Traffic costs money: no hedges start. */
    METERED,

    /** There is no network: retries and hedges wait. */
    OFFLINE,
}
